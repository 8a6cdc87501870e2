package fairgate

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairgate.io/go/fairgate/fairgatev1"
)

// fakeGate grants unless told otherwise, and keeps what it was asked.
type fakeGate struct {
	fairgatev1.UnimplementedAdmissionServiceServer
	admit   func(context.Context, *fairgatev1.AdmitRequest) (*fairgatev1.AdmitResponse, error)
	release func(*fairgatev1.ReleaseRequest) (*fairgatev1.ReleaseResponse, error)

	mu       sync.Mutex
	admits   []*fairgatev1.AdmitRequest
	releases []*fairgatev1.ReleaseRequest
}

func (f *fakeGate) Admit(ctx context.Context, asked *fairgatev1.AdmitRequest) (*fairgatev1.AdmitResponse, error) {
	f.mu.Lock()
	f.admits = append(f.admits, asked)
	f.mu.Unlock()
	if f.admit != nil {
		return f.admit(ctx, asked)
	}
	return granting(asked), nil
}

func (f *fakeGate) Release(_ context.Context, asked *fairgatev1.ReleaseRequest) (*fairgatev1.ReleaseResponse, error) {
	f.mu.Lock()
	f.releases = append(f.releases, asked)
	f.mu.Unlock()
	if f.release != nil {
		return f.release(asked)
	}
	return &fairgatev1.ReleaseResponse{Result: fairgatev1.ReleaseResult_RELEASE_RESULT_SETTLED}, nil
}

func (f *fakeGate) released() []*fairgatev1.ReleaseRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*fairgatev1.ReleaseRequest(nil), f.releases...)
}

func granting(asked *fairgatev1.AdmitRequest) *fairgatev1.AdmitResponse {
	return &fairgatev1.AdmitResponse{
		RequestId: asked.GetRequestId(), Attempt: asked.GetAttempt(),
		Outcome: &fairgatev1.AdmitResponse_Grant{Grant: &fairgatev1.Grant{
			Debited: asked.GetCost(), LeaseExpiresIn: durationpb.New(time.Minute),
		}},
	}
}

func deferring(asked *fairgatev1.AdmitRequest, delay time.Duration) *fairgatev1.AdmitResponse {
	return &fairgatev1.AdmitResponse{
		RequestId: asked.GetRequestId(), Attempt: asked.GetAttempt(),
		Outcome: &fairgatev1.AdmitResponse_Defer{Defer: &fairgatev1.Defer{RetryDelay: durationpb.New(delay)}},
	}
}

// start serves the fake and gives a gate object before it. Both end with the test.
func start(t *testing.T, fake *fakeGate, options Options) *Gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	fairgatev1.RegisterAdmissionServiceServer(server, fake)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return connect(t, listener.Addr().String(), options)
}

func connect(t *testing.T, address string, options Options) *Gate {
	t.Helper()
	if options.RPCTimeout == 0 {
		options.RPCTimeout = 10 * time.Second // a busy machine is no dead gate
	}
	options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	gate, err := New(address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	return gate
}

// nobody listens there.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func settled(t *testing.T, fake *fakeGate) *fairgatev1.Settle {
	t.Helper()
	releases := fake.released()
	if len(releases) != 1 || releases[0].GetSettle() == nil {
		t.Fatalf("not one settlement: %v", releases)
	}
	return releases[0].GetSettle()
}
