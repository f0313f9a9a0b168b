package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/inspect"
	"github.com/corral-exec/corral/sandbox/engine"
)

// explainSandbox is what corral sandbox explain says of a configuration. DIR and
// FILE stand for where it is.
func explainSandbox(t *testing.T, m *fakeMachine, text string, args ...string) (code int, out string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "corral.json5")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := m.run(t, []string{"CORRAL_CONFIG=" + file}, append([]string{"sandbox", "explain"}, args...)...)
	if errs != "" {
		t.Error(errs)
	}
	return code, strings.ReplaceAll(out, file, "FILE")
}

func wants(t *testing.T, out string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		not := strings.HasPrefix(p, "! ")
		if regexp.MustCompile("(?m)"+strings.TrimPrefix(p, "! ")).MatchString(out) == not {
			t.Errorf("%s\nin\n%s", p, out)
		}
	}
}

func engineOfTwo() fakeEngine {
	return fakeEngine{facts: doctor.EngineFacts{Info: engine.Info{Name: "docker", Version: "1", Address: "unix:///d", Arch: "amd64", CPUs: 2, Local: true}}, images: fakeImages{}}
}

// What the engine does not have is told with where it is configured and what to
// do, and nothing is pulled for that.
func TestSandboxExplainAsksTheEngine(t *testing.T) {
	m := &fakeMachine{eng: engineOfTwo()}
	m.eng.lacks = []engine.Lack{
		{Of: engine.PartRuntime, Err: corral.Errorf(corral.ErrInvalid, "install it", "the engine has no runtime kata")},
		{Of: engine.PartNetwork, Err: corral.Errorf(corral.ErrInvalid, "see which", "the engine has no network team")},
		{Of: engine.PartCPUs, Err: corral.Errorf(corral.ErrInvalid, "use fewer", "the engine's machine has 2 processors")},
	}
	m.eng.images = fakeImages{err: cerrdefs.ErrNotFound}
	config := `{sandbox: {mode: "all", user: "1000:1000",
  runtime: "kata", cpus: 64,
  network: "team", image: "corral/nosuch:1"}}`
	code, out := explainSandbox(t, m, config)
	if code != 1 {
		t.Errorf("code %d", code)
	}
	wants(t, out,
		`^problem  the engine has no runtime kata\nwhere    FILE:2 sandbox.runtime\nto do    install it$`,
		`^problem  the engine has no network team\nwhere    FILE:3 sandbox.network\nto do    see which$`,
		`^problem  the engine's machine has 2 processors\nwhere    FILE:2 sandbox.cpus\nto do    use fewer$`,
		`^problem  there is no recipe for the image corral/nosuch:1\nwhere    FILE:3 sandbox.image\nto do    Corral's images are `,
		`^image +corral/nosuch:1 \(the engine does not have it\)$`,
		`^cpus +64 \(the engine's machine has 2\)$`,
	)
	if got := m.eng.checked; len(got) != 1 || got[0].Runtime != "kata" || got[0].Network != "team" || got[0].CPUs != 64 {
		t.Errorf("%+v", got)
	}
	if m.eng.closed != 1 {
		t.Errorf("it was closed %d times", m.eng.closed)
	}
	code, out = explainSandbox(t, m, config, "--json")
	var e inspect.Sandbox
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 1 || len(e.Problems) != 4 || e.Problems[0] != (inspect.Problem{Problem: "the engine has no runtime kata", Where: "FILE:2 sandbox.runtime", Fix: "install it"}) {
		t.Errorf("%d, %+v, %v", code, e.Problems, err)
	}
}

// The configuration says off, and a flag of the gateway or of corral exec may say otherwise.
func TestSandboxExplainOff(t *testing.T) {
	_, out := explainSandbox(t, &fakeMachine{eng: engineOfTwo()}, `{}`)
	wants(t, out, `^mode +off \(sandbox.mode\): without --sandbox or --host sandbox, commands run on the gateway, in no container$`)
}

// An image that is not there yet, and can be had as far as is known, is no
// problem.
func TestSandboxExplainAnImageToGet(t *testing.T) {
	m := &fakeMachine{eng: engineOfTwo()}
	m.eng.images = fakeImages{err: cerrdefs.ErrNotFound}
	code, out := explainSandbox(t, m, `{sandbox: {user: "1000:1000", image: "debian:12"}}`)
	wants(t, out, `^image +debian:12 \(not there yet: the first command gets it\)$`, "! problem")
	if code != 0 {
		t.Errorf("code %d", code)
	}
	m.eng.images = fakeImages{}
	_, out = explainSandbox(t, m, `{sandbox: {user: "1000:1000", image: "debian:12"}}`)
	wants(t, out, `^image +debian:12$`)
}

// What is refused is shown as it was asked for, with where that is.
func TestSandboxExplainRefusals(t *testing.T) {
	m := &fakeMachine{eng: engineOfTwo()}
	code, out := explainSandbox(t, m, `{
  sandbox: {network: "host", seccomp: "unconfined",
    apparmor: "unconfined", binds: ["/etc:/x"]},
  agents: {list: [{id: "one", workspace: "/etc", sandbox: {user: "1000:1000", workspaceAccess: "rw",
    binds: ["/usr/share:/data:ro", "~:/home"]}}]},
}`, "--agent", "one")
	if code != 1 {
		t.Errorf("code %d", code)
	}
	wants(t, out,
		`^network +host \(refused\)$`, `^seccomp +unconfined \(refused\)$`, `^apparmor +unconfined \(refused\)$`, `^mount +/workspace \(rw\) from /etc \(refused\)$`,
		`^mount +/data \(ro\) from /usr/share$`, `! ^mount +/x`, `! ^mount +/home`,
		`^refused  cannot mount /etc into a sandbox: it targets the blocked path /etc\nrule     bind-system\nwhere    FILE:4 agents.list\[0\].workspace\nto do    `,
		`^refused  cannot mount /etc:/x into a sandbox: .*\nrule     bind-system\nwhere    FILE:3 sandbox.binds\[0\]\nto do    `,
		`^refused  cannot mount /[^~]*:/home into a sandbox: .*\nrule     bind-home\nwhere    FILE:5 agents.list\[0\].sandbox.binds\[1\]\nto do    use a directory made for the work`,
		`^rule     network-host\nwhere    FILE:2 sandbox.network\n`, `^rule     seccomp-unconfined\nwhere    FILE:2 sandbox.seccomp\n`,
		`! \(bind-system\)`, `! may be more`,
	)
	for _, spec := range m.eng.checked {
		if spec.Network != "" {
			t.Errorf("the engine was asked for what is refused: %+v", spec)
		}
	}
}

// Mistakes in the file hide nothing of the rest.
func TestSandboxExplainMistakes(t *testing.T) {
	m := &fakeMachine{eng: engineOfTwo()}
	const config = `{sandbox: {
  user: "0:0", network: "host", pids: "many", timezone: "Mars/Olympus",
  binds: ["data:/data", "/usr/share:data", "/usr/share:/data:z", "/etc:/x"],
}}`
	code, out := explainSandbox(t, m, config)
	if code != 1 {
		t.Errorf("code %d", code)
	}
	wants(t, out,
		`^mistake  FILE:2:9: sandbox.user: "0:0" is not right; `, `^mistake  FILE:2:39: sandbox.pids: `, `^mistake  FILE:2:57: sandbox.timezone: there is no time zone "Mars/Olympus"`,
		`^mistake  FILE:3:11: sandbox.binds\[0\]: `, `^to do    correct the file: nothing runs by it while it has a mistake$`,
		`^rule     user-root\nwhere    FILE:2 sandbox.user\n`, `^rule     bind-relative\nwhere    FILE:3 sandbox.binds\[0\]\n`, `^rule     bind-target\n`, `^rule     bind-syntax\n`, `^rule     bind-system\n`,
		`^rule     network-host\n`, `^user +0:0 \(refused\)$`,
		`^There may be more: what is above keeps some of it from being looked at.$`,
	)
	_, out = explainSandbox(t, m, config, "--json")
	var e inspect.Sandbox
	if err := json.Unmarshal([]byte(out), &e); err != nil || len(e.Mistakes) != 6 || len(e.Refusals) != 6 || !e.More {
		t.Errorf("%+v, %v", e, err)
	}
	// One that cannot be read at all has no rest.
	file := filepath.Join(t.TempDir(), "corral.json5")
	if err := os.WriteFile(file, []byte("{sandbox: {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := m.run(t, []string{"CORRAL_CONFIG=" + file}, "sandbox", "explain"); code != 2 || out != "" || !strings.Contains(errs, file+":1:") {
		t.Errorf("%d, %s, %s", code, out, errs)
	}
}

// Only the first of what is no refusal is known, and that is said.
func TestSandboxExplainMayBeMore(t *testing.T) {
	m := &fakeMachine{eng: engineOfTwo()}
	code, out := explainSandbox(t, m, `{sandbox: {user: "1000:1000", workspaceSize: "8m", pids: 2}}`)
	wants(t, out, `^problem  a workspace cannot have 8388608 bytes`, `^There may be more`)
	if code != 1 {
		t.Errorf("code %d", code)
	}
}

// Without an engine it is as if there was one on this machine.
func TestSandboxExplainWithoutAnEngine(t *testing.T) {
	m := &fakeMachine{err: map[string]error{"engine": corral.Errorf(corral.ErrUnavailable, "start it", "no engine answers")}}
	code, out := explainSandbox(t, m, `{sandbox: {user: "1000:1000"}}`)
	wants(t, out, `^engine +none: no engine answers$`, `^seccomp +corral$`, `^problem  no engine answers\nto do    start it$`)
	if code != 1 {
		t.Errorf("code %d", code)
	}
}
