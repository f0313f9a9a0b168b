// Command portserver is what listens inside a sandbox in tests of its ports: HTTP on
// 127.0.0.1:8080 and, where there is IPv6, on [::1]:8082, and on 127.0.0.1:8081 TCP that
// answers all that came, after its end, with the SHA-256 sum of it. It prints "ready"
// when it listens.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/coder/websocket"

	"github.com/corral-exec/corral/internal/test/sumserver"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	page, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		return err
	}
	sums, err := net.Listen("tcp", "127.0.0.1:8081")
	if err != nil {
		return err
	}
	go sumserver.Serve(sums)
	mux := http.NewServeMux()
	mux.HandleFunc("/", show)
	mux.HandleFunc("/sum", sum)
	mux.HandleFunc("/ticks", tick)
	mux.HandleFunc("/ws", echo)
	if six, err := net.Listen("tcp", "[::1]:8082"); err == nil {
		go func() { _ = http.Serve(six, mux) }() //nolint:gosec // of a test
	}
	fmt.Println("ready")
	return http.Serve(page, mux) //nolint:gosec // of a test
}

func show(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s, key %q, agent %q\n", r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Corral-Agent"))
}

func sum(w http.ResponseWriter, r *http.Request) {
	h := sha256.New()
	if _, err := io.Copy(h, r.Body); err == nil {
		fmt.Fprintf(w, "%x", h.Sum(nil))
	}
}

// tick sends server-sent events until the client goes away.
func tick(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := 0; r.Context().Err() == nil; i++ {
		fmt.Fprintf(w, "data: %d\n\n", i)
		_ = http.NewResponseController(w).Flush() // the client may be gone
		time.Sleep(10 * time.Millisecond)
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	for {
		kind, data, err := conn.Read(r.Context())
		if err != nil || conn.Write(r.Context(), kind, data) != nil {
			return
		}
	}
}
