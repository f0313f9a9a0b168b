package ports

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// What is asked of one sandbox by HTTP/2 is answered by it, also while others are asked at
// a port of the same number.
func TestHTTP2Apart(t *testing.T) {
	const sandboxes, requests = 4, 200
	proxy := NewProxy(slog.New(slog.DiscardHandler))
	var asking sync.WaitGroup
	for i := range sandboxes {
		name := fmt.Sprint("sandbox ", i)
		inside := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, name)
		}))
		inside.Config.Protocols = new(http.Protocols)
		inside.Config.Protocols.SetUnencryptedHTTP2(true)
		inside.Start()
		t.Cleanup(inside.Close)
		asking.Go(func() {
			for range requests {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", inside.Listener.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
				r.Header.Set("Content-Type", "application/grpc")
				w := httptest.NewRecorder()
				err = proxy.Serve(w, r, Target{Conn: conn, Port: 50051, Path: "/"})
				if got := w.Body.String(); err != nil || got != name {
					t.Errorf("%s was asked, and the answer is %q, %v", name, got, err)
				}
				_ = conn.Close() // or the Proxy has closed it
			}
		})
	}
	asking.Wait()
}
