package nodeexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
)

const (
	allowsAll = `{tools: {exec: {security: "full", ask: "off"}}}`
	asks      = `{tools: {exec: {security: "allowlist", ask: "on-miss"}}}`
	strict    = `{node: {approvals: "local"}, tools: {exec: {security: "allowlist", ask: "on-miss"}}}`
)

var _ fabric.Guarded = (*guard.Node)(nil)

// guarded is an executor with the policy of a machine, or of a gateway.
type guarded struct {
	*guard.Node
	tb    testing.TB
	guard *guard.Guard
	file  *approval.File
	desk  *approval.Desk
}

func newGuarded(tb testing.TB, h *hostexec.Executor, dir, settings string, log *slog.Logger) *guarded {
	tb.Helper()
	return newPolicy(tb, guard.Config{Plan: h.Plan, Log: log}, dir, settings, func(g *guarded) { g.Node = guard.NewNode(h, g.guard) })
}

func newPolicy(tb testing.TB, cfg guard.Config, dir, settings string, then func(*guarded)) *guarded {
	tb.Helper()
	ok := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	c, err := config.Parse("corral.json5", []byte(settings))
	ok(err)
	g := &guarded{tb: tb}
	g.file, err = approval.NewFile(filepath.Join(dir, "exec-approvals.json"), nil)
	ok(err)
	onNode := cfg.Nodes == nil
	g.desk, err = approval.OpenDesk(approval.Options{
		Dir: filepath.Join(dir, "approvals"),
		Remember: func(_ context.Context, rec approval.Record, rules []policy.Rule) error {
			if !onNode {
				return nil
			}
			return g.file.Add(rec.Agent, rec.Scope, rules...)
		},
	})
	ok(err)
	cfg.Settings, cfg.File, cfg.Desk = func() *config.Config { return c }, g.file, g.desk
	g.guard = guard.New(cfg)
	then(g)
	return g
}

func (g *guarded) close() {
	if err := errors.Join(g.desk.Close(), g.file.Close()); err != nil {
		g.tb.Error(err)
	}
}

// between is a gateway with a policy, and a node with one.
type between struct {
	*testing.T
	rig     *rig
	host    *hostexec.Executor
	dir     string
	node    *guarded
	gateway *guarded
	router  *corral.Router
	granted []byte // to the last command
	said    logtest.Log
}

func newBetween(t *testing.T, node, gateway string) *between {
	t.Helper()
	b := &between{T: t, rig: newRig(t), dir: testdir.New(t)}
	b.host = b.rig.host(hostexec.Config{
		StateDir: filepath.Join(b.dir, "host"), Workspace: b.dir, InProcess: true, Node: "headless", Environ: exectest.HostEnviron(b.dir),
	})
	t.Cleanup(func() {
		if err := b.host.Close(); err != nil {
			t.Error(err)
		}
	})
	b.rig.open()
	b.begin(node)
	t.Cleanup(func() { b.end() })
	b.gateway = newPolicy(t, guard.Config{Nodes: b.rig.fabric, Plan: b.host.Plan}, filepath.Join(b.dir, "gateway"), gateway, func(*guarded) {})
	t.Cleanup(b.gateway.close)
	check := b.gateway.guard.For("main")
	b.router = corral.NewRouter(corral.RouterOptions{
		Host: corral.HostNode, Nodes: b.rig.fabric,
		Guard: func(ctx context.Context, cmd corral.Command, route corral.Route) (corral.Command, error) {
			cmd, err := check(ctx, cmd, route)
			b.granted = cmd.Decided.Grant
			return cmd, err
		},
	})
	return b
}

// begin begins a life of the node's program, and end ends it.
func (b *between) begin(settings string) {
	b.Helper()
	log := slog.New(slog.NewTextHandler(&b.said, nil))
	b.node = newGuarded(b, b.host, filepath.Join(b.dir, "node"), settings, log)
	b.rig.serve(b.node.Node)
	b.rig.node()
}

func (b *between) end() {
	b.rig.stop()
	b.node.close()
}

func (b *between) start(cmd corral.Command) (corral.Process, error) {
	return b.router.Start(corral.WithAgent(b.Context(), "main"), cmd)
}

func (b *between) output(cmd corral.Command) string {
	b.Helper()
	p, err := b.start(cmd)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := p.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 1<<10)
	c, err := p.Log().Read(b.Context(), 0, buf)
	if err != nil {
		b.Fatal(err)
	}
	return string(c.Data)
}

// allowed returns a command with an approval for it.
func (b *between) allowed(cmd corral.Command, v approval.Verdict) corral.Command {
	b.Helper()
	_, err := b.start(cmd)
	p, ok := approval.AsPending(err)
	if !ok {
		b.Fatalf("%+v is not asked about: %v", cmd, err)
	}
	if _, err := b.gateway.desk.Answer(b.Context(), p.Record.ID, approval.Answer{Decision: v, By: "alice"}); err != nil {
		b.Fatal(err)
	}
	cmd.Approval = p.Record.ID
	return cmd
}

// A command is approved at the gateway and runs on the node, once, and what is
// said for good is kept there, for the agent.
//
// "サンドボックス化されたエージェントでは、Gateway またはノードホスト上で `exec` を実行する前に、リクエスト単位で承認を必須にできます。"
func TestApprovedAtGateway(t *testing.T) {
	b := newBetween(t, asks, `{tools: {exec: {security: "full", ask: "off"}}}`)
	cmd := b.allowed(corral.Command{ID: "one", Shell: "echo hello > said; cat said"}, approval.AllowOnce)
	if got := b.output(cmd); got != "hello\n" {
		t.Errorf("%q", got)
	}
	if got := b.output(cmd); got != "hello\n" { // by the same ID
		t.Errorf("%q", got)
	}
	grant := b.granted
	_, err := b.start(corral.Command{ID: "two", Shell: cmd.Shell})
	if !errors.Is(err, corral.ErrApproval) {
		t.Errorf("it was allowed twice: %v", err)
	}

	// An attacker who has the gateway's key and has seen the grant.
	x := b.rig.node()
	replay := func(agent string, cmd corral.Command, grant []byte) error {
		cmd.Decided.Grant = grant
		_, err := x.Start(corral.WithAgent(t.Context(), agent), cmd)
		return err
	}
	p, err := x.Attach(t.Context(), "one")
	if err == nil {
		err = p.Remove(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd.Approval = ""
	for _, restarted := range []bool{false, true} {
		if restarted {
			b.end()
			b.begin(asks)
			x = b.rig.node()
		}
		for why, err := range map[string]error{
			"used already":                             replay("main", cmd, grant),
			"it is for the process \"one\"":            replay("main", corral.Command{ID: "two", Shell: cmd.Shell}, grant),
			"is not what would run now":                replay("main", corral.Command{ID: "one", Shell: "echo evil"}, grant),
			"it is for the agent \"main\"":             replay("other", cmd, grant),
			"came without one":                         replay("main", corral.Command{ID: "three", Shell: cmd.Shell, Security: "full", Ask: "off"}, nil),
			"it cannot be read":                        replay("main", cmd, []byte("{")),
			"more than 4096":                           replay("main", cmd, bytes.Repeat([]byte("x"), fabric.MaxGrant+1)),
			"the request to start is of no agent: id ": replay("*", cmd, grant),
		} {
			if err == nil || !strings.Contains(err.Error(), why) || !errors.Is(err, corral.ErrDenied) && !errors.Is(err, corral.ErrInvalid) {
				t.Errorf("after a restart %t: %v; want %q", restarted, err, why)
			}
		}
	}
	if said := b.said.String(); strings.Count(said, "refused a command of the gateway") < 10 || strings.Contains(said, "echo evil") {
		t.Errorf("the node's log: %s", said)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "said")); err != nil {
		t.Error(err)
	}

	always := b.allowed(corral.Command{ID: "a1", Shell: "printf ok"}, approval.AllowAlways)
	for _, id := range []string{"a1", "a2"} {
		always.ID = id
		if got := b.output(always); got != "ok" {
			t.Errorf("%q", got)
		}
		always.Approval = ""
	}
	if host, err := b.node.file.Rules("main"); err != nil || len(host.Rules) != 1 {
		t.Errorf("the node remembers %+v, %v", host, err)
	}
	if err := replay("other", corral.Command{ID: "a3", Shell: "printf ok"}, nil); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("it was remembered for another agent: %v", err)
	}
}

// A node that answers for itself takes no word of a gateway's.
func TestStrictNode(t *testing.T) {
	b := newBetween(t, strict, allowsAll)
	cmd := corral.Command{ID: "one", Shell: "printf ok"}
	_, err := b.start(cmd)
	list := b.node.desk.List(approval.Filter{})
	if !errors.Is(err, corral.ErrApproval) || len(list) != 1 || !strings.Contains(corral.Hint(err), "on the node: corral node approvals allow "+list[0].Slug) {
		t.Fatalf("%v (%s)", err, corral.Hint(err))
	}
	grant, err := json.Marshal(map[string]any{"approval": "a", "agent": "main", "command": "one", "binding": list[0].Binding.Digest(), "until": 1 << 60})
	if err != nil {
		t.Fatal(err)
	}
	forged := cmd
	forged.Decided.Grant = grant
	if _, err := b.rig.node().Start(corral.WithAgent(t.Context(), "main"), forged); !errors.Is(err, corral.ErrApproval) || !strings.Contains(b.said.String(), "counts for nothing here") {
		t.Errorf("%v", err)
	}
	if _, err := b.node.desk.Answer(t.Context(), list[0].ID, approval.Answer{Decision: approval.AllowOnce}); err != nil {
		t.Fatal(err)
	}
	if got := b.output(cmd); got != "ok" {
		t.Errorf("%q", got)
	}
}

// PATH is additions before the node's own, put in place after the profile; what
// is refused is an error; pathPrepend is for a call that sets PATH.
func TestNodeEnvironment(t *testing.T) {
	b := newBetween(t, allowsAll, allowsAll)
	const own = "/usr/local/bin:/usr/bin:/bin"
	const show = `printf %s "$PATH"`
	for _, tc := range []struct {
		quote string
		cmd   corral.Command
		want  string
	}{
		{"", corral.Command{Shell: show}, own},
		{"`tools.exec.pathPrepend` は、exec 呼び出し側ですでに `env.PATH` を設定している場合にのみ適用されます。", corral.Command{Shell: show, PathPrepend: []string{"/p"}}, own},
		{"同", corral.Command{Shell: show, Env: map[string]string{"PATH": "/a:" + own}, PathPrepend: []string{"/p"}}, "/p:/a:" + own},
		{"ヘッドレスノードホストは、ノードホスト側の PATH に前置される場合にのみ `PATH` を受け付けます（置換は不可）。", corral.Command{Shell: show, Env: map[string]string{"PATH": "/a:$PATH"}}, "/a:" + own},
		{"无头节点仅接受前缀添加", corral.Command{Args: []string{"printenv", "PATH"}, Env: map[string]string{"PATH": "/a:$PATH"}}, "/a:" + own + "\n"},
		{"`host=node`: 渡した環境変数の上書きのみがノードに送信されます。", corral.Command{Shell: `printf %s "$A$CORRAL_SHELL"`, Env: map[string]string{"A": "1"}}, "1exec"},
	} {
		if got := b.output(tc.cmd); got != tc.want && !strings.HasPrefix(got, tc.want+":") { // a profile may add to it
			t.Errorf("%s %+v: %q, want %q", tc.quote, tc.cmd, got, tc.want)
		}
	}
	p, err := b.start(corral.Command{Shell: "true", PathPrepend: []string{"/p"}})
	if err != nil || !strings.Contains(strings.Join(p.Info().Warnings, " "), "pathPrepend does not apply on a node") {
		t.Errorf("%v, %v", p, err)
	}
	// "**Node**：拒绝 PATH 覆盖", "Gateway/node 执行拒绝 `env.PATH` 和加载器覆盖以"防止二进制劫持或注入代码""
	for name, value := range map[string]string{"PATH": "/evil", "LD_PRELOAD": "x", "NODE_OPTIONS": "x"} {
		_, err := b.start(corral.Command{Shell: "true", Env: map[string]string{name: value}})
		if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
