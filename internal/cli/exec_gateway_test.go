package cli

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
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
	if _, why, err := a.sameRoute(&execFlags{}, record, nil); why == "" || err != nil {
		t.Errorf("what wants a sandbox would be sent there: %v", err)
	}
}

// Which flag and which setting of the gateway are at odds is said.
func TestWhyNotThere(t *testing.T) {
	const refusal = "refused"
	for name, tc := range map[string]struct {
		mode   string // of this call
		flags  execFlags
		record gatewayRecord
		want   string // empty: it goes to the gateway; refusal: it is refused
	}{
		"nothing is asked":     {modeOff, execFlags{}, gatewayRecord{Sandbox: modeAll}, ""},
		"this machine":         {modeOff, execFlags{host: "gateway"}, gatewayRecord{Sandbox: modeAll}, "--host gateway asks for this machine, where the gateway (--sandbox all) runs no command"},
		"this machine, off":    {modeOff, execFlags{host: "gateway"}, gatewayRecord{Sandbox: modeOff}, ""},
		"a sandbox":            {modeAll, execFlags{host: "sandbox"}, gatewayRecord{Sandbox: modeOff}, "--host sandbox asks for a sandbox, and the gateway (--sandbox off) would run it on this machine"},
		"a sandbox, on":        {modeAll, execFlags{host: "sandbox"}, gatewayRecord{Sandbox: modeAll}, ""},
		"by a variable":        {modeAll, execFlags{}, gatewayRecord{Sandbox: modeOff}, "CORRAL_SANDBOX=all asks for a sandbox, and the gateway (--sandbox off) would run it on this machine"},
		"elevated":             {modeOff, execFlags{elevated: true}, gatewayRecord{Sandbox: modeAll}, refusal},
		"elevated, on here":    {modeAll, execFlags{elevated: true}, gatewayRecord{Sandbox: modeAll}, refusal},
		"elevated, required":   {modeOff, execFlags{elevated: true}, gatewayRecord{Sandbox: modeRequired, AllowElevated: true}, refusal},
		"elevated, allowed":    {modeOff, execFlags{elevated: true}, gatewayRecord{Sandbox: modeAll, AllowElevated: true}, ""},
		"elevated, no sandbox": {modeOff, execFlags{elevated: true}, gatewayRecord{Sandbox: modeOff}, ""},
	} {
		a := &app{settings: settings{Mode: tc.mode}}
		_, why, err := a.sameRoute(&tc.flags, &tc.record, nil)
		if refused := errors.Is(err, corral.ErrDenied); refused != (tc.want == refusal) || !refused && (why != tc.want || err != nil) {
			t.Errorf("%s: %q, %v", name, why, err)
		}
	}
}
