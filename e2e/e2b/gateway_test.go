//go:build e2e

// Package e2b_test has E2B's own clients use a gateway as it is now.
package e2b_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/testnet"
	"github.com/corral-exec/corral/sandbox/docker"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, m := range []*modules{&clients, &interpreter} {
			if m.dir != "" {
				os.RemoveAll(m.dir)
			}
		}
		os.Exit(code)
	}))
}

// patience is how long the tests of a client may take on a machine under load.
const patience = 9 * time.Minute

// domain is that of the sandboxes.
const domain = "e2b.test"

// A rig is a gateway that serves clients of E2B by TLS, with a key for them.
type rig struct {
	testing.TB
	dir, state, program, config string
	port                        int
	key                         string
	engine                      string // its address; empty: the usual one's

	gateway *exec.Cmd
	log     *os.File
}

// newRig makes a rig for a test, which goes on beside the others: they wait more than they
// compute.
func newRig(t *testing.T) *rig {
	t.Parallel()
	return newRigWith(t, func(_, _ map[string]any) {})
}

// newRigWith makes a rig, with what set changes in the configuration.
func newRigWith(t testing.TB, set func(sandbox, gateway map[string]any)) *rig {
	return newRigOn(t, "", set)
}

// newRigOn makes it on an engine at an address.
func newRigOn(t testing.TB, address string, set func(sandbox, gateway map[string]any)) *rig {
	engine, err := docker.New(docker.Options{Host: address})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	store := images.Store{Engine: engine.Images()}
	if _, err := store.Ensure(t.Context(), images.Default, nil); err != nil {
		t.Fatal(err)
	}
	g := &rig{TB: t, engine: address, dir: t.TempDir(), state: testdir.New(t), port: testnet.FreePort(t)}
	g.program, g.config = built.Program(t, "cmd/corral"), filepath.Join(g.dir, "corral.json5")
	g.certify()
	// Clients expect a program called python.
	const setup = `mkdir -p ~/.bin && ln -sf /usr/bin/python3 ~/.bin/python && echo 'PATH=$HOME/.bin:$PATH' >~/.bash_profile`
	gateway := map[string]any{
		"e2b": map[string]any{
			"listen": fmt.Sprintf("127.0.0.1:%d", g.port), "root": true,
			"templates": []string{"ubuntu:22.04=" + images.Default}, // which the suite builds from
		}, "domain": g.domain(),
		"tls": map[string]any{"cert": filepath.Join(g.dir, "cert.pem"), "key": filepath.Join(g.dir, "key.pem")},
	}
	sandbox := map[string]any{"mode": "all", "setupCommand": setup, "pids": 2 * streams}
	set(sandbox, gateway)
	config, err := json.Marshal(map[string]any{"sandbox": sandbox, "gateway": gateway})
	g.ok(err)
	g.ok(os.WriteFile(g.config, config, 0o600))
	if g.log, err = os.Create(filepath.Join(g.dir, "gateway.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(g.log.Name()); err == nil && t.Failed() {
			t.Logf("the gateway's log ends:\n%s", text[max(0, len(text)-8000):])
		}
		g.log.Close()
	})
	g.start()
	t.Cleanup(func() { g.stop(os.Interrupt) })
	var made api.MadeKey
	g.ok(json.Unmarshal([]byte(g.run(nil, g.program, "keys", "create", "--state-dir", g.state, "--role", "agent", "--agent", "e2b", "--json", "sdk")), &made))
	g.key = "e2b_" + hex.EncodeToString([]byte(made.Secret))
	return g
}

func (g *rig) domain() string { return fmt.Sprintf("%s:%d", domain, g.port) }

func (g *rig) ok(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// start starts the gateway, and returns when it answers.
func (g *rig) start() {
	g.Helper()
	g.gateway = exec.Command(g.program, "gateway", "--state-dir", g.state, "--config", g.config)
	g.gateway.Stdout, g.gateway.Stderr = g.log, g.log
	if g.engine != "" {
		g.gateway.Env = append(os.Environ(), "DOCKER_HOST="+g.engine)
	}
	g.ok(g.gateway.Start())
	// It serves all its listeners or none.
	c, err := client.New(client.Options{Socket: filepath.Join(g.state, "gateway.sock"), Retry: -1})
	g.ok(err)
	defer c.Close()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := c.Ready(g.Context())
		if err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			g.Fatal("the gateway does not listen: ", err)
		}
	}
}

func (g *rig) stop(by os.Signal) {
	g.Helper()
	g.ok(g.gateway.Process.Signal(by))
	err := g.gateway.Wait()
	if by == os.Interrupt && err != nil {
		g.Error("the gateway ended with ", err)
	}
}

// certify makes a certificate for the domain, by an authority of its own.
func (g *rig) certify() {
	template := func(n int64, name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(n), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	}
	write := func(name, kind string, der []byte) {
		g.ok(os.WriteFile(filepath.Join(g.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		g.ok(err)
		return key
	}
	ca, caKey := template(1, "test"), newKey()
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	g.ok(err)
	write("ca.pem", "CERTIFICATE", der)
	own, key := template(2, domain), newKey()
	own.DNSNames = []string{"*." + domain}
	der, err = x509.CreateCertificate(rand.Reader, own, ca, key.Public(), caKey)
	g.ok(err)
	write("cert.pem", "CERTIFICATE", der)
	der, err = x509.MarshalPKCS8PrivateKey(key)
	g.ok(err)
	write("key.pem", "PRIVATE KEY", der)
}

// env is the environment of a client.
func (g *rig) env() []string {
	preload, err := filepath.Abs("testdata/preload.cjs")
	g.ok(err)
	return []string{
		"E2B_DOMAIN=" + g.domain(), "E2B_API_KEY=" + g.key, "NODE_OPTIONS=--require=" + preload, "NODE_EXTRA_CA_CERTS=" + filepath.Join(g.dir, "ca.pem"),
	}
}

func (g *rig) run(env []string, program string, args ...string) string {
	g.Helper()
	out, err := g.try(env, program, args...)
	if err != nil {
		g.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return out
}

// try returns what a program writes to its standard output; and to its standard error, if
// it fails.
func (g *rig) try(env []string, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	if g.engine != "" {
		cmd.Env = append(cmd.Env, "DOCKER_HOST="+g.engine)
	}
	if program == "npm" || program == "node" {
		cmd.Dir = g.dir
	}
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	err := cmd.Run()
	if err != nil {
		return out.String() + fault.String(), err
	}
	return out.String(), nil
}

// A modules is a directory with packages of npm.
type modules struct {
	packages []string
	once     sync.Once
	dir      string
	err      error
}

// clients are the published ones that the tests use.
var clients = modules{packages: []string{"e2b@2.51.0", "@e2b/cli@2.19.0", "@mastra/e2b@0.8.0", "ws@8.18.3"}}

// interpreter is the published client of the code interpreter, which needs another SDK.
var interpreter = modules{packages: []string{"@e2b/code-interpreter@2.8.0"}}

// get installs the packages, once.
func (m *modules) get() (dir string, err error) {
	m.once.Do(func() {
		if m.dir, m.err = os.MkdirTemp("", "corral-npm-"); m.err != nil {
			return
		}
		cmd := exec.Command("npm", append([]string{"install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts", "--prefix", m.dir}, m.packages...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			m.err = fmt.Errorf("npm install %q: %w\n%s", m.packages, err, out)
		}
	})
	return m.dir, m.err
}

// install lets scripts of the rig's directory, which it puts there, use packages.
func (g *rig) install(m *modules, scripts ...string) {
	g.Helper()
	dir, err := m.get()
	g.ok(err)
	g.ok(os.Symlink(filepath.Join(dir, "node_modules"), filepath.Join(g.dir, "node_modules")))
	for _, script := range scripts {
		g.script(script)
	}
}

func (g *rig) script(name string) {
	g.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	g.ok(err)
	g.ok(os.WriteFile(filepath.Join(g.dir, name), text, 0o600))
}

// The published SDK, unmodified.
func TestSDK(t *testing.T) {
	g := newRig(t)
	g.install(&clients, "script.mjs", "template.mjs")
	t.Log(g.run(g.env(), "node", "script.mjs"))
	t.Log(g.run(g.env(), "node", "template.mjs"))
	g.nothingLeft()
}

// The published adapter of a framework for agents, unmodified.
func TestMastra(t *testing.T) {
	g := newRig(t)
	g.install(&clients, "mastra.mjs")
	t.Log(g.run(g.env(), "node", "mastra.mjs"))
	g.nothingLeft()
}

// Volumes by the published SDK: two sandboxes have one at the same time, and it outlasts
// them, and a gateway that is killed.
func TestVolumes(t *testing.T) {
	g := newRig(t)
	g.install(&clients, "volumes.mjs")
	in, lines, wait := g.talk(patience, "volumes.mjs")
	for lines.Scan() {
		t.Log(lines.Text())
		if lines.Text() == "kill the gateway" {
			g.stop(os.Kill)
			g.start()
			fmt.Fprintln(in, "back")
		}
	}
	g.ok(wait())
	g.nothingLeft()
	if left, err := filepath.Glob(filepath.Join(g.state, "e2b", "volumes", "*")); err != nil || len(left) > 0 {
		t.Errorf("%s are left: %v", left, err)
	}
}

// The published code interpreter, unmodified. Its image takes minutes to make: make
// interpreter makes it and runs this. CORRAL_PLOT names a file for the plot that is drawn.
func TestInterpreter(t *testing.T) {
	if os.Getenv("CORRAL_INTERPRETER") == "" {
		t.Log("only make interpreter runs this")
		return
	}
	g := newRig(t)
	g.install(&interpreter, "interpreter.mjs")
	t.Log(g.run(g.env(), "node", "interpreter.mjs", os.Getenv("CORRAL_PLOT")))
	g.nothingLeft()
}

// The published command line, unmodified.
func TestCLI(t *testing.T) {
	g := newRig(t)
	g.install(&clients)
	ids := strings.Fields(g.run(g.env(), "node", "--input-type=module", "-e", `import { Sandbox } from 'e2b'; for (let i = 0; i < 3; i++) console.log((await Sandbox.create({ timeoutMs: 200_000 })).sandboxId)`))
	id := ids[0]
	cli := func(args ...string) (string, error) {
		return g.try(g.env(), "node", append([]string{"node_modules/.bin/e2b", "sandbox"}, args...)...)
	}
	ok := func(want string, args ...string) {
		t.Helper()
		if out, err := cli(args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	ok(id, "list")
	ok("State: running", "info", id)
	ok("hello\n", "exec", id, "echo", "hello")
	out, err := cli("exec", id, "--", "sh", "-c", "exit 4")
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 4 {
		t.Errorf("%v\n%s", err, out)
	}
	ok("exit code 4", "logs", id)
	ok("paused", "pause", id)
	ok(id, "list", "--state", "paused")
	ok("resumed", "resume", id)
	g.terminal(id)
	ok("killed", "kill", id)
	if out, err := cli("exec", id, "true"); err == nil {
		t.Errorf("after its end: %s", out)
	}
	// Corral's own command removes what is kept of them as well, with a gateway and without.
	remove := func(id string) {
		g.run(nil, g.program, "sandbox", "rm", "--state-dir", g.state, "--config", g.config, id)
	}
	remove(ids[1])
	g.stop(os.Interrupt)
	remove(ids[2])
	g.nothingLeft()
	g.start()
}

// withoutTLS is for tests that compare with E2B's daemon, which has none.
func withoutTLS(_, gateway map[string]any) {
	delete(gateway, "tls")
	delete(gateway, "domain")
}

// daemon starts E2B's own daemon, which is in the directory of its tests, in a container of
// an image, and returns its address.
func (g *rig) daemon(suite, image string) (address string) {
	g.Helper()
	program := filepath.Join(g.dir, "envd")
	packed, err := exec.Command("gunzip", "-c", filepath.Join(suite, "envd-linux-amd64.gz")).Output()
	g.ok(err)
	g.ok(os.WriteFile(program, packed, 0o755))
	limits := []string{"--memory=2g", "--memory-swap=2g", fmt.Sprintf("--cpus=%v", min(2, float64(runtime.NumCPU())/2)), fmt.Sprintf("--pids-limit=%d", 2*streams)} // as a sandbox
	id := strings.TrimSpace(g.run(nil, "docker", slices.Concat([]string{"run"}, limits, []string{"--detach", "--label", "corral=bench", "--user", "0:0", "--volume", program + ":/envd:ro",
		"--entrypoint", "/envd", image, "-isnotfc", "-port", "49983"})...))
	g.Cleanup(func() {
		if out, err := exec.Command("docker", "rm", "--force", id).CombinedOutput(); err != nil {
			g.Errorf("%v: %s", err, out)
		}
	})
	g.run(nil, "docker", "exec", id, "sh", "-c", "id user || useradd --create-home --shell /bin/bash user")
	const format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
	address = "http://" + strings.TrimSpace(g.run(nil, "docker", "inspect", "--format", format, id)) + ":49983"
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		res, err := http.Get(address + "/health")
		if err == nil {
			res.Body.Close()
			return address
		}
		if time.Now().After(end) {
			g.Fatal("E2B's daemon does not answer: ", err)
		}
	}
}

// terminal has the command line connect a terminal to a sandbox.
func (g *rig) terminal(id string) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "script", "-qfec", "node node_modules/.bin/e2b sandbox connect "+id, "/dev/null")
	cmd.Dir, cmd.Env = g.dir, append(os.Environ(), g.env()...)
	in, err := cmd.StdinPipe()
	g.ok(err)
	out, err := cmd.StdoutPipe()
	g.ok(err)
	g.ok(cmd.Start())
	var seen strings.Builder
	typed, buf := 0, make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		seen.Write(buf[:n])
		switch {
		case typed == 0 && strings.Contains(seen.String(), "$ "): // the prompt
			fmt.Fprintln(in, "echo $((6*7)) `id -un`")
			typed++
		case typed == 1 && strings.Contains(seen.String(), "42 user"):
			fmt.Fprintln(in, "exit")
			typed++
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil || typed != 2 {
		g.Errorf("%v\n%s", err, seen.String())
	}
}

// The gateway is killed while twenty commands of a client run: their output and their ends
// are found, a time-out has its effect, and what is paused stays so.
func TestKilled(t *testing.T) {
	g := newRig(t)
	g.install(&clients, "killed.mjs")
	in, lines, wait := g.talk(patience, "killed.mjs")
	if !lines.Scan() || lines.Text() != "started" {
		t.Fatalf("%q: %v", lines.Text(), wait())
	}
	g.stop(os.Kill)
	g.await(2) // containers: the time of the third sandbox is over, although no gateway runs
	g.start()
	fmt.Fprintln(in, "back")
	for lines.Scan() {
		t.Log(lines.Text())
	}
	g.ok(wait())
	g.nothingLeft()
}

// talk starts a script that says lines and waits for some. What it writes to its standard
// error is in the error of wait.
func (g *rig) talk(limit time.Duration, script string, args ...string) (in io.Writer, lines *bufio.Scanner, wait func() error) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), limit)
	g.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	cmd.Dir, cmd.Env = g.dir, append(os.Environ(), g.env()...)
	var fault bytes.Buffer
	cmd.Stderr = &fault
	in, err := cmd.StdinPipe()
	g.ok(err)
	out, err := cmd.StdoutPipe()
	g.ok(err)
	g.ok(cmd.Start())
	return in, bufio.NewScanner(out), func() error {
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w: %s", err, fault.String())
		}
		return nil
	}
}

// await waits until that many sandboxes have a container that runs. It asks the engine:
// no gateway need run.
func (g *rig) await(n int) {
	g.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		var list []struct{ Running bool }
		g.ok(json.Unmarshal([]byte(g.run(nil, g.program, "sandbox", "ls", "--json", "--state-dir", g.state, "--config", g.config)), &list))
		running := 0
		for _, b := range list {
			if b.Running {
				running++
			}
		}
		switch {
		case running == n:
			return
		case time.Now().After(end):
			g.Fatalf("%d sandboxes run, want %d: %+v", running, n, list)
		}
	}
}

// nothingLeft looks for sandboxes, which the clients have killed.
func (g *rig) nothingLeft() {
	g.Helper()
	var list []json.RawMessage
	g.ok(json.Unmarshal([]byte(g.run(nil, g.program, "sandbox", "ls", "--json", "--state-dir", g.state, "--config", g.config)), &list))
	kept, err := filepath.Glob(filepath.Join(g.state, "e2b", "*.json"))
	if err != nil || len(list) > 0 || len(kept) > 0 {
		g.Errorf("%s and %s are left: %v", list, strings.Join(kept, " "), err)
	}
}
