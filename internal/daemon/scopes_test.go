package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/sandbox"
)

func TestSandboxName(t *testing.T) {
	const agent, session, shared = config.ScopeAgent, config.ScopeSession, config.ScopeShared
	long := strings.Repeat("a", 64)
	names := map[string]string{}
	for _, tc := range []struct {
		scope          config.Scope
		agent, session string
		want           string // the name, up to a hash
	}{
		{agent, "main", "", "main"},
		{agent, "main", "whatever", "main"},
		{agent, "Agent_1.x", "", "Agent_1.x"},
		{agent, strings.Repeat("a", 32), "", strings.Repeat("a", 32)},
		{agent, long, "", "agent-" + strings.Repeat("a", 26) + "#"},
		{agent, long[:63] + "b", "", "agent-" + strings.Repeat("a", 26) + "#"},
		{agent, "_x", "", "agent-x#"},
		{agent, "shared", "", "shared"},
		{agent, "x-0123456789abcdef", "", "agent-x-0123456789abcdef#"}, // as if it were another's
		{session, "main", "", "agent-main-main#"},
		{session, "main", "telegram:123", "agent-main-telegram-123#"},
		{session, "main", "Telegram 123", "agent-main-telegram-123#"},
		{session, "other", "telegram:123", "agent-other-telegram-123#"},
		{session, "main", "../../etc", "agent-main-etc#"},
		{session, "main", "日本", "agent-main#"},
		{shared, "main", "a", "shared#"},
	} {
		name := SandboxName(tc.scope, tc.agent, tc.session)
		if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`).MatchString(name) {
			t.Errorf("%q is no name", name)
		}
		if base := hashedName().ReplaceAllString(name, "#"); base != tc.want {
			t.Errorf("%+v: %s", tc, name)
		}
		key := ScopeKey(tc.scope, tc.agent, tc.session)
		if other, ok := names[name]; ok && other != key {
			t.Errorf("%s and %s are both %s", other, key, name)
		}
		names[name] = key
	}
	same := [][2]string{
		{SandboxName(session, "main", "agent:main:telegram:1"), SandboxName(session, "main", "telegram:1")},
		{SandboxName(shared, "main", ""), SandboxName(shared, "other", "x")},
		{SandboxName("", "main", ""), "main"},
	}
	for _, s := range same {
		if s[0] != s[1] {
			t.Errorf("%s is not %s", s[0], s[1])
		}
	}
	if SandboxName(session, "main", "agent:other:x") == SandboxName(session, "other", "x") {
		t.Error("an agent gets into another's sandbox")
	}
}

// The session of a call says to which sandbox it goes, and every sandbox of an
// agent is looked at for what runs.
func TestScopes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json5")
	write := func(scope string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(`{sandbox: {mode: "all", scope: "`+scope+`", memory: "1g"}, agents: {list: [{id: "big", sandbox: {memory: "3g"}}]}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("session")
	opened := map[string]SandboxOptions{}
	m := &fakeMachine{}
	b := m.backends()
	b.Sandbox = func(o SandboxOptions) (Executor, error) {
		opened[o.Name] = o
		x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"go": fakeexec.Print(o.Name, "", 0)}}
		return knowing{x}, nil
	}
	o := &Options{Backends: b, Config: ConfigFile{Path: file, Named: true}, Log: slog.New(slog.DiscardHandler)}
	state := t.TempDir()
	h, err := openHosts(o, state, false, alone)
	if err != nil {
		t.Fatal(err)
	}
	start := func(agent, session, id string) {
		t.Helper()
		ex, err := h.executor(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ex.Start(config.WithCaller(t.Context(), config.Caller{Session: session}), corral.Command{ID: id, Shell: "go", Decided: decided.About{Fresh: true}}); err != nil {
			t.Fatal(err)
		}
	}
	start("main", "one", "a")
	start("main", "one", "b")
	start("main", "two", "c")
	start("big", "one", "d")
	if len(opened) != 3 {
		t.Errorf("opened %v", opened)
	}
	write("shared")
	start("main", "one", "e")
	start("big", "two", "f")
	if o := opened[SandboxName(config.ScopeShared, "", "")]; len(opened) != 4 || o.Resources.Memory != 1<<30 || o.Owner != "" {
		t.Errorf("opened %v, shared %+v", len(opened), o)
	}
	write("agent")
	start("big", "two", "g")
	if o := opened["big"]; len(opened) != 5 || o.Resources.Memory != 3<<30 || o.Owner != "big" {
		t.Errorf("opened %v, %+v", len(opened), o)
	}
	for _, tc := range []struct{ agent, ids string }{{"main", "abcef"}, {"big", "defg"}} {
		ex, err := h.executor(t.Context(), tc.agent)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range "abcdefg" {
			_, err := ex.Attach(t.Context(), string(id))
			if found := err == nil; found != strings.ContainsRune(tc.ids, id) {
				t.Errorf("%s looks for %c: %v", tc.agent, id, err)
			}
		}
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// knowing is an executor that says which processes it has.
type knowing struct{ *fakeexec.Executor }

func (k knowing) Knows(id string) bool {
	_, err := k.Attach(context.Background(), id)
	return err == nil
}

// A gateway keeps the engine that it was started with, and says so once.
func TestEngineIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json5")
	write := func(all, big string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(`{sandbox: {mode: "all", engine: "`+all+`"}, agents: {list: [{id: "big", sandbox: {engine: "`+big+`"}}]}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("docker", "podman")
	opened := map[string]SandboxOptions{}
	m := &fakeMachine{}
	b := m.backends()
	b.Sandbox = func(o SandboxOptions) (Executor, error) {
		opened[o.Name] = o
		return &fakeexec.Executor{Programs: map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}}, nil
	}
	o := &Options{Backends: b, Config: ConfigFile{Path: file, Named: true}, Log: slog.New(slog.DiscardHandler)}
	var log strings.Builder
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	h, err := openHosts(o, t.TempDir(), false, alone)
	if err != nil {
		t.Fatal(err)
	}
	h.warm = fakePool{}
	said := ""
	h.followEngine(&said)
	if log.Len() > 0 {
		t.Errorf("nothing was changed: %s", log.String())
	}
	write("containerd", "podman")
	for range 2 {
		h.followEngine(&said)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "engine=docker configured=containerd") || !strings.Contains(got, "start the gateway again") {
		t.Errorf("it says %s", got)
	}
	for _, agent := range []string{"main", "big"} {
		ex, err := h.executor(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ex.Start(t.Context(), corral.Command{ID: agent, Shell: "go"}); err != nil {
			t.Fatal(err)
		}
	}
	// The pool's containers are at one engine, and for sandboxes of that one.
	if one, big := opened["main"], opened["big"]; one.Engine != "docker" || one.Pool == nil || big.Engine != "podman" || big.Pool != nil {
		t.Errorf("%+v; %+v", one, big)
	}
	write("docker", "podman")
	h.followEngine(&said)
	if said != "" {
		t.Error("it is not forgotten")
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

type fakePool struct{ WarmPool }

func (fakePool) Containers() *sandbox.Pool { return &sandbox.Pool{} }
func (fakePool) Close() error              { return nil }
