package docker

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		spec   engine.Spec
		podman bool
		want   string // what is lacking, and why
	}{
		{spec: engine.Spec{}},
		{spec: engine.Spec{Runtime: "runsc", CPUs: 4, Network: "bridge"}},
		{spec: engine.Spec{Network: "team", Runtime: "io.containerd.kata.v2"}},
		{spec: engine.Spec{Runtime: "/opt/bin/crun"}},
		{spec: engine.Spec{Runtime: "kata"}, want: "runtime: the engine has no runtime kata: it has runc, runsc\n"},
		{spec: engine.Spec{CPUs: 4.5}, want: "cpus: the engine's machine has 4 processors, and no container with 4.5 of them is made\n"},
		{spec: engine.Spec{CPUs: 4.5}, podman: true},
		{spec: engine.Spec{Network: "nosuch"}, want: "network: the engine has no network nosuch\n"},
		{spec: engine.Spec{Network: "abcdef"}, want: `network: a sandbox is refused the network "abcdef": it is another name of the network host, with the driver host (network-host)` + "\n"},
		{spec: engine.Spec{Network: "nosuch", Runtime: "kata", CPUs: 99}, want: "runtime: the engine has no runtime kata: it has runc, runsc\n" +
			"cpus: the engine's machine has 4 processors, and no container with 99 of them is made\nnetwork: the engine has no network nosuch\n"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answers := map[string]string{
				"/version": `{"ApiVersion": "1.43", "Os": "linux"}`, "/_ping": "OK",
				"/info":          `{"NCPU": 4, "Runtimes": {"runsc": {}, "runc": {}}}`,
				"/networks/team": `{"Name": "team", "Driver": "bridge"}`, "/networks/abcdef": `{"Name": "host", "Driver": "host"}`,
			}
			if tt.podman {
				answers["/version"] = `{"ApiVersion": "1.41", "Os": "linux", "Components": [{"Name": "Podman Engine"}]}`
			}
			path := r.URL.Path
			if rest, ok := strings.CutPrefix(path, "/v1."); ok {
				path = rest[strings.Index(rest, "/"):]
			}
			w.Header().Set("Content-Type", "application/json")
			answer, ok := answers[path]
			if !ok {
				w.WriteHeader(http.StatusNotFound)
				answer = `{"message": "no such thing"}`
			}
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			if _, err := w.Write([]byte(answer)); err != nil {
				t.Error(err)
			}
		}))
		e, err := New(Options{Host: "tcp://" + server.Listener.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		lacks, err := e.Check(t.Context(), tt.spec)
		if err != nil {
			t.Error(err)
		}
		got := ""
		for _, l := range lacks {
			got += string(l.Of) + ": " + l.Err.Error() + "\n"
			if corral.Hint(l.Err) == "" {
				t.Errorf("%v has no hint", l.Err)
			}
		}
		if got != tt.want {
			t.Errorf("%+v:\n%s\nwant\n%s", tt.spec, got, tt.want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	}
}
