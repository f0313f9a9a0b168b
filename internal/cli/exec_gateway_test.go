package cli

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/daemon"
)

// What an earlier gateway said of itself is not believed of the one that starts:
// it may have no sandbox where that one had.
func TestRecordOfTheGatewayThatAnswers(t *testing.T) {
	dir := t.TempDir()
	write := func(mode string) {
		if err := (daemon.Record{PID: 1, Sandbox: mode}).Write(dir); err != nil {
			t.Error(err)
		}
	}
	write(daemon.ModeAll)
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
		write(daemon.ModeOff)
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
	a := &app.App{StateFlag: dir, Settings: daemon.Settings{Mode: daemon.ModeAll}, Stderr: io.Discard}
	record, err := commands{a}.readyGateway(t.Context(), c, true)
	if err != nil || record.Sandbox != daemon.ModeOff {
		t.Fatalf("%+v, %v", record, err)
	}
}

// What is meant for a sandbox does not run without one because the gateway has
// none, and what cannot be had there is not run from here instead.
func TestSamePlace(t *testing.T) {
	here := corral.Route{Host: corral.HostGateway}
	box := corral.Route{Host: corral.HostSandbox, Sandboxed: true}
	off := corral.Route{Host: corral.HostGateway, Reason: corral.RouteSandboxOff}
	node := corral.Route{Host: corral.HostNode}
	flag := func(o execFlags) execFlags { o.shape = append(o.shape, "sandbox"); return o }
	for name, tc := range map[string]struct {
		mode  string
		flags execFlags
		there corral.Route
		want  string // empty: it runs there
	}{
		"nothing is asked":         {daemon.ModeOff, execFlags{}, box, ""},
		"as configured":            {daemon.ModeAll, execFlags{}, off, ""}, // which the gateway knows better
		"this machine":             {daemon.ModeOff, execFlags{host: "gateway"}, here, ""},
		"a sandbox":                {daemon.ModeAll, execFlags{host: "sandbox"}, off, "--host sandbox asks for a sandbox, and the gateway would run the command on this machine"},
		"a sandbox, on":            {daemon.ModeAll, execFlags{host: "sandbox"}, box, ""},
		"by a flag":                {daemon.ModeAll, flag(execFlags{}), off, "--sandbox all asks for a sandbox, and the gateway would run the command on this machine"},
		"required":                 {daemon.ModeRequired, flag(execFlags{host: "gateway"}), here, "--sandbox required asks for a sandbox, and the gateway would run the command on this machine"},
		"all, and this machine":    {daemon.ModeAll, flag(execFlags{host: "gateway"}), here, ""},
		"all, and elevated":        {daemon.ModeAll, flag(execFlags{elevated: true}), here, ""},
		"none":                     {daemon.ModeOff, flag(execFlags{}), box, "--sandbox off asks for no sandbox, and the gateway would run the command in one"},
		"none, and there is none":  {daemon.ModeOff, flag(execFlags{}), off, ""},
		"a node":                   {daemon.ModeOff, execFlags{host: "node"}, node, ""},
		"a directory":              {daemon.ModeOff, execFlags{shape: []string{"workspace"}}, off, ""},
		"a directory in a sandbox": {daemon.ModeOff, execFlags{shape: []string{"workspace"}}, box, "--workspace cannot change what the sandboxes of the gateway work on"},
	} {
		a := &app.App{Settings: daemon.Settings{Mode: tc.mode}}
		err := commands{a}.wanted(&tc.flags).Check(tc.there)
		got := ""
		if err != nil {
			got = err.Error()
			if !strings.Contains(corral.Hint(err), "--local") {
				t.Errorf("%s: the hint is %q", name, corral.Hint(err))
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	a := &app.App{Settings: daemon.Settings{Mode: daemon.ModeAll}, Flags: pflag.NewFlagSet("", 0), Environ: []string{"CORRAL_SANDBOX=all"}}
	a.Flags.String("sandbox", "", "")
	app.FromEnvironment(a.Flags, "sandbox")
	if err := (commands{a}).wanted(&execFlags{}).Check(off); err == nil || !strings.HasPrefix(err.Error(), "CORRAL_SANDBOX=all asks for a sandbox") {
		t.Errorf("by a variable: %v", err)
	}
}
