//go:build tools

// Package tools pins the generators of the stubs, apart from what users of the client get.
package tools

import (
	_ "google.golang.org/grpc/cmd/protoc-gen-go-grpc"
	_ "google.golang.org/protobuf/cmd/protoc-gen-go"
)
