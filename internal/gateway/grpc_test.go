package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A gRPC client and server talk through a policy that watches answers: unary calls, streams, trailers, codes. The policy's
// failures count, and a refusal is an error that the client understands.
func TestGRPC(t *testing.T) {
	checks := health.NewServer()
	checks.SetServingStatus("up", healthpb.HealthCheckResponse_SERVING)
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("seen", fmt.Sprint(metadata.ValueFromIncomingContext(ctx, "who"))))
		if len(metadata.ValueFromIncomingContext(ctx, "wrong")) > 0 {
			return nil, status.Error(codes.Unauthenticated, "wrong")
		}
		return next(ctx, r)
	}))
	healthpb.RegisterHealthServer(server, checks)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	dir := t.TempDir()
	root := pair(t, dir, "a", "a.test")
	yaml := settings("h2c://"+l.Addr().String(), `
policies:
  rpc:
    match: [{path: /grpc.health.v1.Health/*}]
    failures: {source: {limit: 2, window: 1h}}
    outcome: [{is: failure, status: 200, header: {Grpc-Status: "16"}}, {is: success, status: 200}]
`)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	for name, c := range map[string]struct {
		s     *site
		creds credentials.TransportCredentials
	}{
		"plain": {start(t, yaml), insecure.NewCredentials()},
		"TLS":   {start(t, secured(yaml, dir, "", "a")), credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "a.test"})},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient("passthrough:///"+c.s.g.Addr().String(), grpc.WithTransportCredentials(c.creds))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			client := healthpb.NewHealthClient(conn)
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "who", "bob"), 20*time.Second)
			defer cancel()
			call := func(service string, more ...string) (string, codes.Code, metadata.MD) {
				var trailer metadata.MD
				res, err := client.Check(metadata.AppendToOutgoingContext(ctx, more...), &healthpb.HealthCheckRequest{Service: service}, grpc.Trailer(&trailer))
				return res.GetStatus().String(), status.Code(err), trailer
			}
			got, code, trailer := call("up")
			expect(t, "a call", fmt.Sprint(got, code, trailer.Get("seen")), "SERVINGOK [[bob]]")
			_, code, trailer = call("nowhere")
			expect(t, "an error", fmt.Sprint(code, trailer.Get("seen")), "NotFound [[bob]]")
			stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: "up"})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []healthpb.HealthCheckResponse_ServingStatus{
				healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING,
			} {
				checks.SetServingStatus("up", want) // which is told only if it is new
				res, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				expect(t, "a message of the stream", res.GetStatus(), want)
			}
			for range 2 {
				_, code, _ = call("up", "wrong", "password")
				expect(t, "a failure", code, codes.Unauthenticated)
			}
			_, code, _ = call("up")
			expect(t, "after two failures", code, codes.Unavailable) // as clients read 429
		})
	}
}
