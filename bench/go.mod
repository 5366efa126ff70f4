module queend/bench

go 1.26.0

tool honnef.co/go/tools/cmd/staticcheck

require github.com/klauspost/compress v1.20.4 // indirect

require github.com/valyala/fasthttp v1.78.0

require github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect

require github.com/molecule-man/go-brrr v1.3.1 // indirect

require github.com/valyala/bytebufferpool v1.0.0 // indirect

require golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect

require golang.org/x/mod v0.41.0 // indirect

require golang.org/x/sync v0.23.0 // indirect

require golang.org/x/tools v0.51.0 // indirect

require honnef.co/go/tools v0.8.2 // indirect
