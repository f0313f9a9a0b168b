package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/gateway/e2b/envdpb"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/sandbox/files"
)

// fakeBoxes are sandboxes for clients of E2B: each is a directory.
type fakeBoxes struct {
	dir string

	mu     sync.Mutex
	agents map[string]string // whose a sandbox is that was asked for, by the conversation
	log    []string
	fail   error // of Warm
}

func (f *fakeBoxes) note(text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, text)
	return nil
}

func (f *fakeBoxes) Warm(ctx context.Context, agent string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.agents == nil {
		f.agents = map[string]string{}
	}
	f.agents[config.CallerFrom(ctx).Session] = agent
	return f.fail
}

func (f *fakeBoxes) Get(context.Context, string) (api.Sandbox, error) {
	return api.Sandbox{Limits: &api.SandboxLimits{CPUs: 1.5, Memory: 512 << 20}, Network: "bridge"}, nil
}

func (f *fakeBoxes) Stats(context.Context, string) (api.SandboxStats, error) {
	return api.SandboxStats{Running: true, At: time.Now(), Memory: 7, CPU: int64(time.Second)}, nil
}

func (f *fakeBoxes) Remove(_ context.Context, name string) error  { return f.note("remove " + name) }
func (f *fakeBoxes) Pause(_ context.Context, name string) error   { return f.note("pause " + name) }
func (f *fakeBoxes) Resume(_ context.Context, name string) error  { return f.note("resume " + name) }
func (f *fakeBoxes) Stop(_ context.Context, _, name string) error { return f.note("stop " + name) }
func (f *fakeBoxes) EndAfter(_ context.Context, _, name string, after time.Duration) error {
	return f.note(fmt.Sprintf("end %s after %d s", name, int(after.Round(time.Second).Seconds())))
}
func (f *fakeBoxes) Forget(string) error { return nil }

func (f *fakeBoxes) Files(_ context.Context, _, name string) (files.FS, error) {
	dir := filepath.Join(f.dir, name)
	return files.Directory{Root: e2b.Home, Path: dir}, os.MkdirAll(dir, 0o700)
}

func (f *fakeBoxes) Volume(_ context.Context, agent, dir string) (files.FS, error) {
	if agent == "remote" {
		return nil, corral.Errorf(errors.ErrUnsupported, "", "the engine is elsewhere")
	}
	return files.Directory{Root: "/", Path: dir}, os.MkdirAll(dir, 0o700)
}

func (f *fakeBoxes) RemoveVolume(dir string) error {
	return errors.Join(f.note("remove volume "+filepath.Base(dir)), os.RemoveAll(dir))
}

func (f *fakeBoxes) DialPort(ctx context.Context, _, _ string, port int) (net.Conn, error) {
	if port == 1 {
		return nil, corral.Errorf(corral.ErrNotListening, "", "nothing listens")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// An e2bRig is a gateway for clients of E2B.
type e2bRig struct {
	*rig
	boxes    *fakeBoxes
	store    *e2b.Store
	keys     *access.Store
	settings config.E2B
	stateDir string
	url      string
}

func newE2BRig(t *testing.T) *e2bRig {
	t.Helper()
	dir := testdir.New(t)
	g := &e2bRig{boxes: &fakeBoxes{dir: t.TempDir()}, stateDir: filepath.Join(dir, "e2b")}
	g.settings.Templates = policy.Setting[[]string]{Value: []string{"code=corral/code:1"}}
	var err error
	if g.keys, err = access.Open(filepath.Join(dir, api.KeysFile)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.keys.Close)
	if g.store, err = e2b.OpenStore(g.stateDir); err != nil {
		t.Fatal(err)
	}
	g.rig = newRig(t, func(c *Config) {
		c.Keys = g.keys
		if c.Domain, err = ports.Parse("e2b.test"); err != nil {
			t.Fatal(err)
		}
		c.E2B = e2b.New(e2b.Config{Domain: c.Domain, Store: g.store, Sessions: c.Sessions, Sandboxes: g.boxes, Grant: g.keys.Grant, Settings: func() config.E2B { return g.settings }})
		t.Cleanup(c.E2B.Close)
	})
	s := httptest.NewServer(g.server.e2b)
	t.Cleanup(s.Close)
	g.url = s.URL
	return g
}

// call sends a request, with headers in pairs; Host is one.
func (g *e2bRig) call(method, path, body string, header ...string) answer {
	g.t.Helper()
	req, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer{t: g.t, status: resp.StatusCode, header: resp.Header, body: string(text)}
}

// refused checks an error in E2B's form.
func (g *e2bRig) refused(a answer, status int, text string) {
	g.t.Helper()
	var body struct {
		Code    int
		Message string
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || a.status != status || body.Code != status || !strings.Contains(body.Message, text) {
		g.t.Errorf("%d %s, want %d with %q", a.status, a.body, status, text)
	}
}

func (g *e2bRig) newKey(name string, role access.Role, agents ...string) string {
	return g.key(g.keys, api.NewKey{Name: name, Role: string(role), Agents: agents})
}

// made is a sandbox as a client sees it.
type e2bMade struct {
	ID      string `json:"sandboxID"`
	Token   string `json:"envdAccessToken"`
	Traffic string `json:"trafficAccessToken"`
	State   string
}

func (g *e2bRig) create(key, body string) (m e2bMade) {
	g.t.Helper()
	if err := json.Unmarshal([]byte(g.call("POST", "/v2/sandboxes", body, "X-API-KEY", key).is(201).body), &m); err != nil {
		g.t.Fatal(err)
	}
	return m
}

// at are the headers of a request to a sandbox.
func (m e2bMade) at(port string) []string {
	return []string{"E2b-Sandbox-Id", m.ID, "E2b-Sandbox-Port", port, "X-Access-Token", m.Token}
}

func TestE2BControl(t *testing.T) {
	g := newE2BRig(t)
	key := g.newKey("k", access.Agent, "e2b")
	g.refused(g.call("GET", "/v2/sandboxes", ""), 401, "has no key")
	g.refused(g.call("GET", "/v2/sandboxes", "", "X-API-KEY", "wrong"), 401, "")
	g.refused(g.call("GET", "/nothing", "", "X-API-KEY", key), 404, "/nothing")
	for body, want := range map[string]string{
		`{`: "malformed", `{"timeout":-1}`: "Timeout", `{"timeout":86401}`: "Timeout", `{"iam":{}}`: "iam", `{"volumeMounts":[{}]}`: "cannot name a volume",
		`{"network":{"allowOut":["1.1.1.1"]}}`: "allowOut", `{"network":{"rules":{"h":[]}}}`: "network.rules",
		`{"allow_internet_access":false}`: "reaches nothing",
	} {
		g.refused(g.call("POST", "/sandboxes", body, "X-API-KEY", key), 400, want)
	}
	g.refused(g.call("POST", "/sandboxes", `{"templateID":"none"}`, "X-API-KEY", key), 404, "none")
	g.refused(g.call("POST", "/v3/templates", "{}", "X-API-KEY", key), 400, "cannot name a template")
	if left := g.store.List(); len(left) > 0 {
		t.Errorf("what was refused is kept: %v", left)
	}

	// A key as E2B's clients want keys to look.
	box := g.create("e2b_"+hex.EncodeToString([]byte(key)), `{"templateID":"code","timeout":60,"metadata":{"a":"b c"},"envVars":{"X":"y"}}`)
	if b, ok := g.store.Get(box.ID); !ok || b.Agent != "e2b" || b.Image != "corral/code:1" || b.Env["X"] != "y" || g.boxes.agents["e2b:"+box.ID] != "e2b" {
		t.Errorf("%+v", b)
	}
	var detail struct {
		State, Domain string
		CPUs          int `json:"cpuCount"`
		Memory        int `json:"memoryMB"`
		EndAt         time.Time
	}
	get := func() {
		t.Helper()
		if err := json.Unmarshal([]byte(g.call("GET", "/sandboxes/"+box.ID, "", "X-API-KEY", key).is(200).body), &detail); err != nil {
			t.Fatal(err)
		}
	}
	if get(); detail.State != "running" || detail.Domain != "e2b.test" || detail.CPUs != 2 || detail.Memory != 512 {
		t.Errorf("%+v", detail)
	}
	end := detail.EndAt
	g.call("POST", "/sandboxes/"+box.ID+"/connect", `{"timeout":5}`, "X-API-KEY", key).is(200)
	if get(); !detail.EndAt.Equal(end) {
		t.Errorf("connect shortened the time from %v to %v", end, detail.EndAt)
	}
	g.call("POST", "/sandboxes/"+box.ID+"/timeout", `{"timeout":500}`, "X-API-KEY", key).is(204)
	if get(); !detail.EndAt.After(end.Add(time.Minute)) {
		t.Errorf("the end is %v", detail.EndAt)
	}
	for query, want := range map[string]int{
		"": 1, "?metadata=a%3Db%2Bc": 1, "?metadata=a%3Dc": 0, "?state=paused": 0, "?state=running,paused": 1, "?template=code": 1, "?template=base": 0,
		"?startedAfter=2999-01-01T00:00:00Z": 0,
	} {
		var list []e2bMade
		if err := json.Unmarshal([]byte(g.call("GET", "/v2/sandboxes"+query, "", "X-API-KEY", key).is(200).body), &list); err != nil || len(list) != want {
			t.Errorf("%s: %v, %v", query, list, err)
		}
	}
	for query, want := range map[string]string{"": `"memUsed":7`, "?end=1000": "[]", "?start=99999999999": "[]"} {
		if body := g.call("GET", "/sandboxes/"+box.ID+"/metrics"+query, "", "X-API-KEY", key).is(200).body; !strings.Contains(body, want) {
			t.Errorf("%s: %s", query, body)
		}
	}

	g.call("POST", "/sandboxes/"+box.ID+"/pause", "{}", "X-API-KEY", key).is(204)
	g.refused(g.call("POST", "/sandboxes/"+box.ID+"/pause", "{}", "X-API-KEY", key), 409, "already paused")
	g.refused(g.call("GET", "/health", "", box.at(e2b.EnvdPort)...), 502, "not found")
	g.call("POST", "/v2/sandboxes/"+box.ID+"/connect", `{"timeout":50}`, "X-API-KEY", key).is(201)
	g.call("GET", "/health", "", box.at(e2b.EnvdPort)...).is(204)

	g.call("POST", "/sandboxes/"+box.ID+"/pause", `{"memory":false}`, "X-API-KEY", key).is(204)
	g.call("POST", "/v2/sandboxes/"+box.ID+"/connect", `{"timeout":50}`, "X-API-KEY", key).is(201)
	if b, _ := g.store.Get(box.ID); b.Paused || b.Stopped {
		t.Errorf("%+v", b)
	}
	g.call("DELETE", "/sandboxes/"+box.ID, "", "X-API-KEY", key).is(204)
	g.refused(g.call("DELETE", "/sandboxes/"+box.ID, "", "X-API-KEY", key), 404, "not found")
	g.refused(g.call("GET", "/health", "", box.at(e2b.EnvdPort)...), 502, "not found")
	if got := strings.Join(g.boxes.log, ", "); !strings.HasSuffix(got, fmt.Sprintf(
		"end %[1]s after 502 s, end %[1]s after 0 s, pause %[1]s, resume %[1]s, end %[1]s after 52 s, end %[1]s after 0 s, stop %[1]s, end %[1]s after 52 s, remove %[1]s", box.ID)) {
		t.Error(got)
	}
	g.boxes.fail = errors.New("no engine")
	g.refused(g.call("POST", "/sandboxes", "{}", "X-API-KEY", key), 500, "no engine")
	if left := g.store.List(); len(left) > 0 {
		t.Errorf("what could not be made is kept: %v", left)
	}
}

// What a sandbox's time does, also in a later life.
func TestE2BDeadline(t *testing.T) {
	g := newE2BRig(t)
	key := g.newKey("k", access.Agent, "e2b")
	killed, paused := g.create(key, `{"timeout":1}`), g.create(key, `{"timeout":1,"autoPause":true,"autoResume":{"enabled":true}}`)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, there := g.store.Get(killed.ID)
		b, _ := g.store.Get(paused.ID)
		if !there && b.Paused {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v, %+v", there, b)
		}
	}
	g.refused(g.call("GET", "/files?path=x", "", killed.at(e2b.EnvdPort)...), 502, "not found")
	g.refused(g.call("GET", "/files?path=x", "", paused.at(e2b.EnvdPort)...), 404, "x") // the call has resumed it
	if b, _ := g.store.Get(paused.ID); b.Paused {
		t.Errorf("%+v", b)
	}
}

// No key reaches what is of another agent, and no token of one sandbox another one.
func TestE2BTenants(t *testing.T) {
	g := newE2BRig(t)
	mine, theirs := g.newKey("mine", access.Agent, "mine"), g.newKey("theirs", access.Agent, "theirs")
	viewer, all := g.newKey("viewer", access.Viewer, "mine"), g.newKey("all", access.Agent)
	box, other := g.create(mine, "{}"), g.create(theirs, "{}")
	if b, _ := g.store.Get(box.ID); b.Agent != "mine" {
		t.Errorf("%+v", b)
	}
	for _, r := range [][3]string{
		{"GET", "", ""}, {"DELETE", "", ""}, {"POST", "/timeout", `{"timeout":9}`}, {"POST", "/connect", "{}"}, {"POST", "/pause", "{}"}, {"GET", "/metrics", ""}, {"POST", "/refreshes", "{}"},
	} {
		g.refused(g.call(r[0], "/sandboxes/"+box.ID+r[1], r[2], "X-API-KEY", theirs), 404, "not found")
		if r[0] != "GET" {
			g.refused(g.call(r[0], "/sandboxes/"+box.ID+r[1], r[2], "X-API-KEY", viewer), 403, "may not")
		}
	}
	for key, want := range map[string]int{mine: 1, theirs: 1, viewer: 1, all: 2} {
		var list []e2bMade
		if err := json.Unmarshal([]byte(g.call("GET", "/v2/sandboxes", "", "X-API-KEY", key).is(200).body), &list); err != nil || len(list) != want {
			t.Errorf("%v, %v", list, err)
		}
	}
	if body := g.call("GET", "/sandboxes/"+box.ID, "", "X-API-KEY", viewer).is(200).body; strings.Contains(body, box.Token) {
		t.Error("one who only reads is told the token")
	}
	if b, _ := g.store.Get(g.create(all, "{}").ID); b.Agent != config.DefaultE2BAgent {
		t.Errorf("%+v", b)
	}
	g.refused(g.call("POST", "/sandboxes", "{}", "X-API-KEY", g.newKey("some", access.Agent, "a-*")), 403, "e2b")
	for _, path := range []string{"/files?path=x", "/process.Process/List", "/anything"} {
		method := "GET"
		if strings.HasPrefix(path, "/process") {
			method = "POST"
		}
		g.refused(g.call(method, path, "{}", "E2b-Sandbox-Id", box.ID, "E2b-Sandbox-Port", e2b.EnvdPort), 401, "access token")
		g.refused(g.call(method, path, "{}", "E2b-Sandbox-Id", box.ID, "E2b-Sandbox-Port", e2b.EnvdPort, "X-Access-Token", other.Token), 401, "access token")
		g.refused(g.call(method, path, "{}", "E2b-Sandbox-Id", "../../x", "E2b-Sandbox-Port", e2b.EnvdPort, "X-Access-Token", box.Token), 502, "")
	}
	// With the key ends what it made use of.
	if err := g.keys.Revoke("mine"); err != nil {
		t.Fatal(err)
	}
	g.refused(g.call("GET", "/files?path=x", "", box.at(e2b.EnvdPort)...), 401, "has ended")
	g.call("GET", "/health", "", box.at(e2b.EnvdPort)...).is(204)
}

func TestE2BFiles(t *testing.T) {
	g := newE2BRig(t)
	box := g.create(g.newKey("k", access.Agent, "e2b"), "{}")
	at := box.at(e2b.EnvdPort)
	const text = "0123456789"
	if a := g.call("POST", "/files?path=d/a.txt", text, append(at, "Content-Type", "application/octet-stream")...).is(200); a.body != `[{"name":"a.txt","path":"/home/user/d/a.txt","type":"file"}]`+"\n" {
		t.Error(a.body)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for _, name := range []string{"b.txt", "deep/c.txt"} {
		part, err := w.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(part, name)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	g.call("POST", "/files", form.String(), append(at, "Content-Type", w.FormDataContentType())...).is(200)
	g.refused(g.call("POST", "/files?path=one", form.String(), append(at, "Content-Type", w.FormDataContentType())...), 400, "one path")
	for path, want := range map[string]string{"d/a.txt": text, "~/b.txt": "b.txt", "/home/user/deep/c.txt": "deep/c.txt"} {
		if a := g.call("GET", "/files?path="+path, "", at...).is(200); a.body != want {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	for spec, want := range map[string]string{"bytes=2-4": "206 234", "bytes=-3": "206 789", "bytes=8-": "206 89", "bytes=8-99": "206 89", "bytes=0-1,3-4": "200 " + text, "lines=1": "200 " + text} {
		a := g.call("GET", "/files?path=d/a.txt", "", append(at, "Range", spec)...)
		if got := fmt.Sprint(a.status, " ", a.body); got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
	g.refused(g.call("GET", "/files?path=d/a.txt", "", append(at, "Range", "bytes=10-")...), 416, "10 bytes")
	g.refused(g.call("GET", "/files?path=none", "", at...), 404, "none")
	g.refused(g.call("GET", "/files?path=d", "", at...), 400, "directory")
	g.refused(g.call("POST", "/files?path=d", "x", at...), 400, "directory")
	g.refused(g.call("GET", "/files?path=d/a.txt&username=root", "", at...), 403, "no root")
	g.refused(g.call("GET", "/files?path=d/a.txt&username=else", "", at...), 401, "invalid user")

	g.metadata(at)

	// What was signed, by the sandbox's name and by none.
	sign := func(operation, path string, exp int64) string {
		raw, q := path+":"+operation+"::"+box.Token, url.Values{"path": {path}}
		if exp != 0 {
			raw, q["signature_expiration"] = fmt.Sprint(raw, ":", exp), []string{fmt.Sprint(exp)}
		}
		sum := sha256.Sum256([]byte(raw))
		q.Set("signature", "v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
		return "/files?" + q.Encode()
	}
	named := []string{"Host", e2b.EnvdPort + "-" + box.ID + ".e2b.test"}
	for _, header := range [][]string{named, nil} {
		if a := g.call("GET", sign("read", "d/a.txt", 0), "", header...).is(200); a.body != text {
			t.Error(a.body)
		}
		g.call("GET", sign("read", "d/a.txt", time.Now().Unix()+60), "", header...).is(200)
		g.refused(g.call("GET", sign("read", "d/a.txt", time.Now().Unix()-1), "", header...), 401, "signature is already expired")
		g.call("POST", sign("write", "up", 0), "new", header...).is(200)
		if a := g.call("GET", sign("write", "d/a.txt", 0), "", header...); a.status != 401 {
			t.Errorf("a link to write reads: %d", a.status)
		}
		if a := g.call("GET", strings.Replace(sign("read", "d/a.txt", 0), "a.txt", "b.txt", 1), "", header...); a.status != 401 {
			t.Errorf("a link to one file is one to another: %d", a.status)
		}
	}
}

func TestE2BFilesystem(t *testing.T) {
	g := newE2BRig(t)
	box := g.create(g.newKey("k", access.Agent, "e2b"), "{}")
	ctx := t.Context()
	rpc := func(name string) string { return g.url + "/filesystem.Filesystem/" + name }
	with := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			h := box.at(e2b.EnvdPort)
			for i := 0; i < len(h); i += 2 {
				r.Header().Set(h[i], h[i+1])
			}
			return next(ctx, r)
		}
	}))
	for _, codec := range []connect.ClientOption{connect.WithProtoJSON(), connect.WithClientOptions()} {
		dir := "one"
		mk := connect.NewClient[envdpb.PathRequest, envdpb.EntryResponse](http.DefaultClient, rpc("MakeDir"), codec, with)
		ls := connect.NewClient[envdpb.ListDirRequest, envdpb.ListDirResponse](http.DefaultClient, rpc("ListDir"), codec, with)
		rm := connect.NewClient[envdpb.PathRequest, emptypb.Empty](http.DefaultClient, rpc("Remove"), codec, with)
		st := connect.NewClient[envdpb.PathRequest, envdpb.EntryResponse](http.DefaultClient, rpc("Stat"), codec, with)
		got, err := mk.CallUnary(ctx, connect.NewRequest(&envdpb.PathRequest{Path: dir + "/two"}))
		if err != nil || got.Msg.GetEntry().GetPath() != "/home/user/one/two" || got.Msg.GetEntry().GetType() != envdpb.FileType_FILE_TYPE_DIRECTORY {
			t.Fatalf("%v, %v", got, err)
		}
		if _, err := mk.CallUnary(ctx, connect.NewRequest(&envdpb.PathRequest{Path: dir})); connect.CodeOf(err) != connect.CodeAlreadyExists {
			t.Errorf("again: %v", err)
		}
		if list, err := ls.CallUnary(ctx, connect.NewRequest(&envdpb.ListDirRequest{Path: "", Depth: 2})); err != nil || len(list.Msg.GetEntries()) != 2 {
			t.Errorf("%v, %v", list, err)
		}
		for range 2 { // what is not there is no error
			if _, err := rm.CallUnary(ctx, connect.NewRequest(&envdpb.PathRequest{Path: dir})); err != nil {
				t.Error(err)
			}
		}
		if _, err := rm.CallUnary(ctx, connect.NewRequest(&envdpb.PathRequest{Path: "."})); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("the home directory: %v", err)
		}
		if _, err := st.CallUnary(ctx, connect.NewRequest(&envdpb.PathRequest{Path: dir})); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("what was removed: %v", err)
		}
	}
}

func TestE2BPorts(t *testing.T) {
	g := newE2BRig(t)
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, " ", r.URL.RequestURI(), " ", r.Header.Get("E2b-Sandbox-Id")+r.Header.Get("X-Access-Token")+r.Header.Get("E2b-Traffic-Access-Token"))
	}))
	defer inside.Close()
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	key := g.newKey("k", access.Agent, "e2b")
	public, private := g.create(key, "{}"), g.create(key, `{"network":{"allowPublicTraffic":false,"maskRequestHost":"inner:${PORT}"}}`)
	host := func(m e2bMade, port string) string { return port + "-" + m.ID + ".e2b.test" }
	if a := g.call("GET", "/a%2Fb?c=d", "", "Host", host(public, port)).is(200); a.body != host(public, port)+" /a%2Fb?c=d " {
		t.Error(a.body)
	}
	if a := g.call("GET", "/x", "", public.at(port)...).is(200); !strings.HasSuffix(a.body, " /x ") {
		t.Errorf("the sandbox sees headers that are not for it: %s", a.body)
	}
	g.refused(g.call("GET", "/", "", "Host", host(private, port)), 403, "not public")
	g.refused(g.call("GET", "/", "", "Host", host(private, port), "E2b-Traffic-Access-Token", "wrong"), 403, "not public")
	if a := g.call("GET", "/", "", "Host", host(private, port), "E2b-Traffic-Access-Token", private.Traffic).is(200); a.body != "inner:"+port+" / " {
		t.Error(a.body)
	}
	g.refused(g.call("GET", "/", "", "Host", host(public, "1")), 502, "port is not open")
	if a := g.call("GET", "/", "", "Host", host(public, "1"), "Accept", "text/html"); a.status != 502 || !strings.Contains(a.body, "<h1>") {
		t.Errorf("%d %s", a.status, a.body)
	}
	g.refused(g.call("GET", "/", "", "Host", host(e2bMade{ID: "inone"}, port)), 502, "not found")
	g.refused(g.call("GET", "/", "", "Host", host(public, "99999")), 502, "not found")
}

// Snapshots and forks begin with what was there, and are of one agent.
func TestE2BSnapshots(t *testing.T) {
	g := newE2BRig(t)
	key, other := g.newKey("k", access.Agent, "e2b"), g.newKey("o", access.Agent, "other")
	read := func(m e2bMade) string { return g.call("GET", "/files?path=d/a", "", m.at(e2b.EnvdPort)...).body }
	write := func(m e2bMade, text string) {
		g.call("POST", "/files?path=d/a", text, append(m.at(e2b.EnvdPort), "Content-Type", "application/octet-stream")...).is(200)
	}
	box := g.create(key, `{"templateID":"code","envVars":{"X":"y"}}`)
	write(box, "first")
	var snap struct {
		ID    string `json:"snapshotID"`
		Names []string
	}
	taken := g.call("POST", "/sandboxes/"+box.ID+"/snapshots", `{"name":"snap"}`, "X-API-KEY", key).is(201)
	if err := json.Unmarshal([]byte(taken.body), &snap); err != nil || len(snap.Names) != 1 || snap.Names[0] != "snap:latest" {
		t.Fatalf("%s, %v", taken.body, err)
	}
	g.refused(g.call("POST", "/sandboxes/"+box.ID+"/snapshots", `{"name":"../x"}`, "X-API-KEY", key), 400, "name")
	g.refused(g.call("POST", "/sandboxes/"+box.ID+"/snapshots", `{}`, "X-API-KEY", other), 404, "not found")
	write(box, "second")
	for _, name := range []string{snap.ID, "snap", "snap:latest"} {
		again := g.create(key, `{"templateID":"`+name+`"}`)
		if got := read(again); got != "first" {
			t.Errorf("of %s: %q", name, got)
		}
		if b, _ := g.store.Get(again.ID); b.Image != "corral/code:1" {
			t.Errorf("of %s: %+v", name, b)
		}
		g.refused(g.call("POST", "/sandboxes", `{"templateID":"`+name+`"}`, "X-API-KEY", other), 404, "not found")
	}

	// One that was paused without what was in memory is forked as it is, and the forks run.
	g.call("POST", "/sandboxes/"+box.ID+"/pause", `{"memory":false}`, "X-API-KEY", key).is(204)
	var forks []struct{ Sandbox e2bMade }
	if err := json.Unmarshal([]byte(g.call("POST", "/sandboxes/"+box.ID+"/fork", `{"count":2}`, "X-API-KEY", key).is(201).body), &forks); err != nil || len(forks) != 2 {
		t.Fatalf("%v, %v", forks, err)
	}
	g.call("POST", "/sandboxes/"+box.ID+"/connect", `{}`, "X-API-KEY", key).is(201)
	write(forks[0].Sandbox, "third")
	if a, b, c := read(forks[0].Sandbox), read(forks[1].Sandbox), read(box); a != "third" || b != "second" || c != "second" {
		t.Errorf("%q, %q, %q", a, b, c)
	}
	if b, _ := g.store.Get(forks[1].Sandbox.ID); b.Env["X"] != "y" || b.Token == box.Token || b.Paused || b.Stopped {
		t.Errorf("%+v", b)
	}
	g.refused(g.call("POST", "/sandboxes/"+box.ID+"/fork", `{"count":21}`, "X-API-KEY", key), 400, "count")

	// They outlive the sandbox and the gateway.
	g.call("DELETE", "/sandboxes/"+box.ID, "", "X-API-KEY", key).is(204)
	again, err := e2b.OpenStore(g.stateDir)
	if err != nil || len(again.List()) != 5 {
		t.Fatalf("%v, %v", again, err)
	}
	for query, want := range map[string]bool{"": true, "?sandboxID=" + box.ID: true, "?name=snap": true, "?name=other": false, "?sandboxID=x": false} {
		body := g.call("GET", "/snapshots"+query, "", "X-API-KEY", key).is(200).body
		if strings.Contains(body, snap.ID) != want {
			t.Errorf("%s: %s", query, body)
		}
	}
	if body := g.call("GET", "/snapshots", "", "X-API-KEY", other).is(200).body; body != "[]\n" {
		t.Error(body)
	}
	g.refused(g.call("DELETE", "/templates/"+snap.ID, "", "X-API-KEY", other), 404, "no template or snapshot")
	g.call("DELETE", "/templates/snap", "", "X-API-KEY", key).is(204)
	g.refused(g.call("DELETE", "/templates/"+snap.ID, "", "X-API-KEY", key), 404, "no template or snapshot")
	if left, err := filepath.Glob(filepath.Join(g.stateDir, "snapshots", "*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
