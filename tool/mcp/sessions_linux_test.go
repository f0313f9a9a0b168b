package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// However many sessions clients open, and do not end, there are 100. One that is in use
// stays, also without a request under way.
func TestSessionsBounded(t *testing.T) {
	s := server(t)
	url := serveHTTP(t, s)
	first, calls := connectOlder(t, url, "2025-06-18"), connectOlder(t, url, "2025-06-18")
	dir := t.TempDir()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	call := calls.request(ctx, t, http.MethodPost, "", execMessage(2, "cd "+dir+"; touch begun; while [ ! -e end ]; do sleep 0.05; done; touch done"))
	go func() {
		res, err := http.DefaultClient.Do(call)
		if err == nil {
			res.Body.Close()
		}
		left <- err
	}()
	for {
		if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	leave() // the call goes on
	if err := <-left; err == nil {
		t.Fatal("the call was answered before its end")
	}
	for range 300 {
		connectOlder(t, url, "2025-06-18")
	}
	if n := s.Clients(); n != 100 {
		t.Errorf("there are %d sessions", n)
	}
	req := first.request(t.Context(), t, http.MethodPost, "", `{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	old, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	old.Body.Close()
	if old.StatusCode != http.StatusNotFound {
		t.Errorf("the oldest is answered %s", old.Status)
	}
	if got := calls.post(t, execMessage(4, "cd "+dir+"; touch end; while [ ! -e done ]; do sleep 0.05; done; echo it was")); !strings.Contains(got, `it was\n`) {
		t.Errorf("one whose call went on: %s", got)
	}

	var streams []*http.Response // which their clients hold
	for range 100 {
		o := connectOlder(t, url, "2025-06-18")
		r := o.request(t.Context(), t, http.MethodGet, "", "")
		r.Header.Set("Accept", "text/event-stream")
		streams = append(streams, o.send(t, r))
	}
	req = (&older{url: url}).request(t.Context(), t, http.MethodPost, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, "2025-06-18"))
	more, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	more.Body.Close()
	if more.StatusCode != http.StatusTooManyRequests || s.Clients() != 100 {
		t.Errorf("one more than are in use: %s, %d sessions", more.Status, s.Clients())
	}
	for _, r := range streams {
		r.Body.Close()
	}
}
