package main

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// picture is one plot of a row.
type picture struct {
	file string
	make func() (*plot.Plot, error)
}

// pictures are the plots of a row.
func pictures(l rowLine) []picture {
	var found []picture
	add := func(what string, draw func(rowLine) (*plot.Plot, error)) {
		found = append(found, picture{l.Name + "-" + what + ".svg", func() (*plot.Plot, error) { return draw(l) }})
	}
	var good []result
	for _, r := range l.Results {
		if r.counts() {
			good = append(good, r)
		}
	}
	l.Results = good
	if len(good) > 1 && good[0].Shape.Rate == 0 {
		add("rate", plotRates)
	}
	for _, kind := range []string{"push", "e2e", "take"} {
		if len(good) > 1 && slices.ContainsFunc(good, func(r result) bool { return r.Median[kind+"_p50_us"] > 0 }) {
			add(kind, func(l rowLine) (*plot.Plot, error) { return plotLatencies(l, kind) })
		}
	}
	for _, s := range seriesPlots {
		for _, r := range good {
			if len(r.Series[s.series]) > 1 {
				add(s.name, func(l rowLine) (*plot.Plot, error) { return s.draw(l.Title, r.Series[s.series]) })
			}
		}
	}
	return found
}

// plotNames are the files of a row's plots.
func plotNames(l rowLine) []string {
	var names []string
	for _, p := range pictures(l) {
		names = append(names, p.file)
	}
	return names
}

// plotRow writes the plots of a row into dir.
func plotRow(dir string, l rowLine) error {
	for _, pic := range pictures(l) {
		p, err := pic.make()
		if err != nil {
			return fmt.Errorf("%s: %w", pic.file, err)
		}
		if err := p.Save(vg.Points(560), vg.Points(300), filepath.Join(dir, pic.file)); err != nil {
			return fmt.Errorf("%s: %w", pic.file, err)
		}
	}
	return nil
}

// palette has colours that people who see few of them can tell apart.
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	color.RGBA{230, 159, 0, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{60, 60, 60, 255},
}

// newPlot is an empty plot on white.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size = vg.Points(10)
	p.BackgroundColor = color.White
	p.Legend.Top = true
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size = vg.Points(9)
		axis.Tick.Label.Font.Size = vg.Points(8)
	}
	p.Add(plotter.NewGrid())
	return p
}

// plotRates draws a bar for each entry.
func plotRates(l rowLine) (*plot.Plot, error) {
	p := newPlot(l.Title, "", "messages a second")
	p.Title.TextStyle.Font.Size = font.Length(9)
	p.Y.Min = 0
	var names []string
	for i, r := range l.Results {
		bar, err := plotter.NewBarChart(plotter.Values{r.Median["msg_per_s"]}, vg.Points(36))
		if err != nil {
			return nil, err
		}
		bar.XMin = float64(i)
		bar.Color = palette[i%len(palette)]
		bar.LineStyle.Width = 0
		p.Add(bar)
		names = append(names, r.Entry)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	p.X.Tick.Label.Font.Size = vg.Points(7)
	return p, nil
}

// plotLatencies draws the percentiles of each entry.
func plotLatencies(l rowLine, kind string) (*plot.Plot, error) {
	title := map[string]string{"push": "push", "e2e": "end to end, from the instant a message was due", "take": "pop"}[kind]
	p := newPlot(l.Title, "", title+", ms")
	p.Title.TextStyle.Font.Size = font.Length(9)
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{}
	marks := []string{"p50", "p90", "p99", "p999", "max"}
	for i, r := range l.Results {
		var points plotter.XYs
		for j, mark := range marks {
			if v := r.Median[kind+"_"+mark+"_us"]; v > 0 {
				points = append(points, plotter.XY{X: float64(j), Y: v / 1000})
			}
		}
		if len(points) == 0 {
			continue
		}
		if err := addLine(p, r.Entry, i, points); err != nil {
			return nil, err
		}
	}
	// A scale of logarithms has no room for a single value, or for one at its edge.
	p.Y.Min, p.Y.Max = p.Y.Min/1.3, p.Y.Max*1.3
	p.Legend.Left = true
	p.NominalX("p50", "p90", "p99", "p99.9", "max")
	return p, nil
}

// addLine draws the n-th line of a plot.
func addLine(p *plot.Plot, name string, n int, points plotter.XYs) error {
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, dots.Color = palette[n%len(palette)], palette[n%len(palette)]
	line.Width = vg.Points(1.5)
	p.Add(line, dots)
	p.Legend.Add(name, line, dots)
	return nil
}

// seriesPlot draws figures over what grows.
type seriesPlot struct {
	series, name string
	x, y         string
	log          bool
	lines        []seriesLine
}

// seriesLine is one figure of a seriesPlot.
type seriesLine struct {
	name, figure string
	unit         float64
}

var costLines = []seriesLine{{"push", "push_cpu_us_per_msg", 1}, {"pop and ack", "pop_cpu_us_per_msg", 1}}

var seriesPlots = []seriesPlot{
	{"partitions", "partitions", "partitions", "CPU of the broker, us a message", true, costLines},
	{"stored", "stored", "millions of messages stored", "CPU of the broker, us a message", false, costLines},
	{"minutes", "latency", "minutes", "end to end, ms", false, []seriesLine{{"p50", "e2e_p50_us", 1000}, {"p99", "e2e_p99_us", 1000}}},
	{"minutes", "memory", "minutes", "MB", false, []seriesLine{{"RSS", "rss_mb", 1}, {"disk", "disk_mb", 1}}},
}

func (s seriesPlot) draw(title string, series []figures) (*plot.Plot, error) {
	p := newPlot(title, s.x, s.y)
	p.Title.TextStyle.Font.Size = font.Length(9)
	p.Y.Min = 0
	if s.log {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{}
	}
	top := 0.0
	for i, line := range s.lines {
		var points plotter.XYs
		for _, f := range series {
			x := f["x"]
			if s.series == "stored" {
				x /= 1e6
			}
			points = append(points, plotter.XY{X: x, Y: f[line.figure] / line.unit})
			top = max(top, f[line.figure]/line.unit)
		}
		if err := addLine(p, line.name, i, points); err != nil {
			return nil, err
		}
	}
	p.Y.Min, p.Y.Max = 0, top*1.25
	return p, nil
}
