//go:build linux

package cli

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// httpCommand is http STATUS SERVER PATH [NAME:VALUE]...: a GET must be answered
// with that status. SERVER is the path of a
// socket, or @ and a file with a URL.
func httpCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: http STATUS SERVER PATH [NAME:VALUE]...")
	}
	server, transport := "http://localhost", &http.Transport{DisableKeepAlives: true}
	if file, named := strings.CutPrefix(args[1], "@"); named {
		server = strings.TrimSpace(ts.ReadFile(file))
	} else {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", args[1])
		}
	}
	req, err := http.NewRequest(http.MethodGet, server+args[2], nil)
	ts.Check(err)
	for _, h := range args[3:] {
		name, value, _ := strings.Cut(h, ":")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: transport, Timeout: eventuallyWithin}
	resp, err := client.Do(req)
	ts.Check(err)
	resp.Body.Close()
	if got := strconv.Itoa(resp.StatusCode); got != args[0] {
		ts.Fatalf("GET %s of %s is answered with %s, want %s", args[2], args[1], got, args[0])
	}
}
