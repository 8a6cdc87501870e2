module fairgate.io/go/fairgate/tools

go 1.23.0

require (
	google.golang.org/grpc/cmd/protoc-gen-go-grpc v1.5.1
	google.golang.org/protobuf v1.36.6
)
