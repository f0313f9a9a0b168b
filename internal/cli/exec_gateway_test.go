package cli

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/api"
)

// What an earlier gateway said of itself is not believed of the one that starts:
// it may have no sandbox where that one had.
func TestRecordOfTheGatewayThatAnswers(t *testing.T) {
	dir := t.TempDir()
	write := func(mode string) {
		if err := (gatewayRecord{PID: 1, Sandbox: mode}).write(dir); err != nil {
			t.Error(err)
		}
	}
	write(modeAll)
	socket := filepath.Join(dir, api.SocketFile)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		write(modeOff)
		_, _ = w.Write([]byte("{}")) // the client's error says it
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }() // until it is closed
	defer func() { server.Close(); <-served }()
	c, err := client.New(client.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := &app{settings: settings{StateDir: dir, Mode: modeAll}}
	record, err := a.readyGateway(t.Context(), c, true)
	if err != nil || record.Sandbox != modeOff {
		t.Fatalf("%+v, %v", record, err)
	}
	if _, same, err := a.sameRoute(&execFlags{}, record); same || err != nil {
		t.Errorf("what wants a sandbox would be sent there: %v", err)
	}
}
