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

require golang.org/x/sync v0.24.0 // indirect

require golang.org/x/tools v0.51.0 // indirect

require (
	codeberg.org/go-fonts/liberation v0.5.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/antithesishq/antithesis-sdk-go v0.9.0-default-no-op // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.3 // indirect
	github.com/nats-io/nkeys v0.4.17 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/image v0.30.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)

require github.com/HdrHistogram/hdrhistogram-go v1.4.0

require github.com/nats-io/nats-server/v2 v2.15.3

require github.com/nats-io/nats.go v1.55.0

require github.com/nats-io/nuid v1.0.1

require (
	github.com/jackc/pgx/v5 v5.13.0
	gonum.org/v1/plot v0.17.0
)
