module fairgate.io/conformance

go 1.23.0
