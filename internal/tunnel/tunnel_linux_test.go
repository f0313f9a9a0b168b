package tunnel

import (
	"errors"
	"io"
	"testing"
)

// A client that closes all at once has its bytes delivered, and is then not waited for.
func TestClientGone(t *testing.T) {
	client, server, end := joined(t, t.Context(), "unix")
	if _, err := client.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if got, err := io.ReadAll(server); err != nil || string(got) != "last words" {
		t.Errorf("%q, %v", got, err)
	}
	if err := ended(t, end); !errors.Is(err, errGone) {
		t.Errorf("%v", err)
	}
}
