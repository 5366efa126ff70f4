package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"queend/backup"
	"queend/client"
)

// partSuffix names what is kept of a backup that broke off.
const partSuffix = ".part"

// parts are the segment files that earlier attempts have left, by name.
type parts struct {
	file   *os.File // nil: there are none
	byName map[string]backup.Part
}

// openParts opens the parts at path, if there are some.
func openParts(path string) (*parts, error) {
	p := &parts{byName: map[string]backup.Part{}}
	var err error
	if p.file, err = os.Open(path); errors.Is(err, fs.ErrNotExist) {
		p.file = nil
		return p, nil
	} else if err != nil {
		return nil, err
	}
	found, err := backup.Parts(p.file)
	for _, part := range found {
		p.byName[part.Name] = part
	}
	return p, err
}

func (p *parts) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

func (p *parts) names() []string {
	names := make([]string, 0, len(p.byName))
	for name := range p.byName {
		names = append(names, name)
	}
	return names
}

// saveParts keeps at path what can be of an attempt that broke off and has
// written to temp, beside what was kept before.
func saveParts(temp, path string, before *parts) (kept int, err error) {
	f, err := os.Open(temp)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	all, err := backup.Parts(f)
	if err != nil {
		return 0, err
	}
	came := map[string]bool{}
	for i := range all {
		came[all[i].Name] = true
	}
	for name, part := range before.byName {
		if !came[name] {
			all = append(all, part)
		}
	}
	if len(all) == 0 {
		return 0, nil
	}
	out, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(out.Name())
	if err := errors.Join(backup.WriteParts(out, all), out.Sync(), out.Close()); err != nil {
		return 0, err
	}
	return len(all), os.Rename(out.Name(), path)
}

// fetch fetches the backup of a running broker and checks it on the way. What
// earlier attempts have is not fetched again.
func (s *backupSink) fetch(url, token string, have *parts, out io.Writer) error {
	remote, err := client.New(url, token)
	if err != nil {
		return err
	}
	request := struct {
		Have []string `json:"have"`
	}{have.names()}
	return remote.Stream(context.Background(), "/internal/backup", request, func(body io.Reader) error {
		_, err := backup.ReadTo(body, backup.Sink{
			Begin: func(p backup.Point) (err error) {
				s.point = p
				s.w, err = backup.NewWriter(out, p)
				return err
			},
			File: s.Add,
			Kept: func(name string, size int64, sum string) error {
				part, ok := have.byName[name]
				if !ok || part.SHA256 != sum || part.Size() != size {
					return fmt.Errorf("%s is kept of a backup of another broker: delete %s", name, have.file.Name())
				}
				s.kept++
				return s.Add(name, size, part)
			},
		})
		if err == nil {
			_, err = io.Copy(io.Discard, body) // what stands behind the manifest
		}
		return errors.Join(err, s.close(err))
	})
}

// close ends the backup if nothing went wrong.
func (s *backupSink) close(err error) error {
	if err != nil {
		return nil
	}
	return s.w.Close()
}
