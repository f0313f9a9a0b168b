package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// A client that goes in the middle of a file leaves none. The body of its request says once
// that it was cut, and then that it has ended.
func TestWriteOfCutBody(t *testing.T) {
	d := Directory{Path: t.TempDir(), Root: "/workspace"}
	wrote := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := d.Write(context.WithoutCancel(r.Context()), "/workspace/f", r.Body, WriteOptions{})
		wrote <- err
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nonly this")
	if err = errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(filepath.Join(d.Path, "f")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file with %q, %v", b, err)
	}
}
