module rivals

go 1.23

require (
	github.com/geseq/orderbook v0.0.0-20260622053553-88e80980c691
	github.com/geseq/udecimal v0.0.0-20211126195629-659dde5a92d8
)

require golang.org/x/sys v0.26.0 // indirect
