package gateway

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/e2b"
)

type e2bVolume struct {
	ID          string `json:"volumeID"`
	Name, Token string
}

func (g *e2bRig) volume(key, name string) (v e2bVolume) {
	g.t.Helper()
	body := g.call("POST", "/volumes", `{"name":"`+name+`"}`, "X-API-KEY", key).is(201).body
	if err := json.Unmarshal([]byte(body), &v); err != nil || v.Name != name {
		g.t.Fatalf("%s, %v", body, err)
	}
	return v
}

func (g *e2bRig) in(v e2bVolume, method, what, body string) answer {
	return g.call(method, "/volumecontent/"+v.ID+"/"+what, body, "Authorization", "Bearer "+v.Token)
}

func TestE2BVolumes(t *testing.T) {
	g := newE2BRig(t)
	key, other, reader := g.newKey("k", access.Agent, "e2b"), g.newKey("o", access.Agent, "other"), g.newKey("r", access.Viewer, "e2b")
	v := g.volume(key, "data")
	g.volume(other, "data") // a name is an agent's
	for _, name := range []string{"", "a b", "../x", "a.b", strings.Repeat("x", 129)} {
		g.refused(g.call("POST", "/volumes", `{"name":"`+name+`"}`, "X-API-KEY", key), 400, "cannot name a volume")
	}
	g.refused(g.call("POST", "/volumes", `{"name":"data"}`, "X-API-KEY", key), 409, "already exists")
	g.refused(g.call("POST", "/volumes", `{"name":"x"}`, "X-API-KEY", reader), 403, "")
	remote := g.newKey("remote", access.Agent, "remote")
	g.refused(g.call("POST", "/volumes", `{"name":"x"}`, "X-API-KEY", remote), 501, "elsewhere")
	if list := g.call("GET", "/volumes", "", "X-API-KEY", remote).is(200).body; list != "[]\n" {
		t.Errorf("one that cannot be had is kept: %s", list)
	}
	if list := g.call("GET", "/volumes", "", "X-API-KEY", key).is(200).body; strings.Count(list, v.ID) != 1 || strings.Count(list, "data") != 1 || strings.Contains(list, "token") {
		t.Errorf("%s", list)
	}
	for _, method := range []string{"GET", "DELETE"} {
		g.refused(g.call(method, "/volumes/"+v.ID, "", "X-API-KEY", other), 404, "not found")
	}

	mounts := `{"volumeMounts":[{"id":"x","name":"data","path":"/mnt//data/"},{"name":"data","path":"/srv"}]}`
	box := g.create(key, mounts)
	const want = `"volumeMounts":[{"name":"data","path":"/mnt/data"},{"name":"data","path":"/srv"}]`
	for _, path := range []string{"/sandboxes/" + box.ID, "/v2/sandboxes"} {
		if got := g.call("GET", path, "", "X-API-KEY", key).is(200).body; !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if b, _ := g.store.Get(box.ID); b.Volumes[0].ID != v.ID {
		t.Errorf("%+v", b.Volumes)
	}
	for body, text := range map[string]string{
		`[{"name":"no","path":"/mnt"}]`:         "not found",
		`[{"name":"../data","path":"/mnt"}]`:    "cannot name",
		`[{"name":"data","path":"mnt"}]`:        "absolute",
		`[{"name":"data","path":"/mnt\u0000"}]`: "absolute",
		`[{"name":"data","path":"/a:ro"}]`:      "absolute",
	} {
		g.refused(g.call("POST", "/sandboxes", `{"volumeMounts":`+body+`}`, "X-API-KEY", key), 400, text)
	}
	var forks []struct{ Sandbox e2bMade }
	if err := json.Unmarshal([]byte(g.call("POST", "/sandboxes/"+box.ID+"/fork", `{}`, "X-API-KEY", key).is(201).body), &forks); err != nil {
		t.Fatal(err)
	}
	g.refused(g.call("DELETE", "/volumes/"+v.ID, "", "X-API-KEY", key), 409, "mounted in sandbox")
	g.call("DELETE", "/sandboxes/"+box.ID, "", "X-API-KEY", key).is(204)
	g.refused(g.call("DELETE", "/volumes/"+v.ID, "", "X-API-KEY", key), 409, "mounted in sandbox "+forks[0].Sandbox.ID)
	g.call("DELETE", "/sandboxes/"+forks[0].Sandbox.ID, "", "X-API-KEY", key).is(204)

	// It outlives the gateway; what a life left behind that ended early is removed.
	left := filepath.Join(g.stateDir, "volumes", "v"+strings.Repeat("0", 19))
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := e2b.OpenStore(g.stateDir)
	if err != nil {
		t.Fatal(err)
	}
	e2b.New(e2b.Config{Store: again, Sandboxes: g.boxes, Grant: g.keys.Grant, Settings: func() config.E2B { return g.settings }}).Close()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory of no volume is left: %v", err)
	}
	if _, err := os.Stat(again.VolumeDir(v.ID)); err != nil {
		t.Error(err)
	}
	g.call("DELETE", "/volumes/"+v.ID, "", "X-API-KEY", key).is(204)
	g.refused(g.call("GET", "/volumes/"+v.ID, "", "X-API-KEY", key), 404, "not found")
	g.refused(g.in(v, "GET", "path?path=/", ""), 401, "token")
	if kept, err := filepath.Glob(g.store.VolumeDir(v.ID) + "*"); err != nil || len(kept) > 0 {
		t.Errorf("%s is left, %v", kept, err)
	}
}

func TestE2BVolumeFiles(t *testing.T) {
	g := newE2BRig(t)
	key, reader := g.newKey("k", access.Agent, "e2b"), g.newKey("r", access.Viewer, "e2b")
	v := g.volume(key, "data")
	dir := g.store.VolumeDir(v.ID)
	entry := func(a answer) (e struct {
		Name, Type, Path, Target string
		Size, Mode               int64
	}) {
		t.Helper()
		if err := json.Unmarshal([]byte(a.body), &e); err != nil {
			t.Errorf("%s: %v", a.body, err)
		}
		return e
	}
	if e := entry(g.in(v, "PUT", "file?path=a.txt&mode=384", "text").is(201)); e.Path != "/a.txt" || e.Name != "a.txt" || e.Type != "file" || e.Size != 4 || e.Mode != 0o600 {
		t.Errorf("%+v", e)
	}
	g.in(v, "PUT", "file?path=/a.txt", "other text").is(201)
	if got := g.in(v, "GET", "file?path=/x/../a.txt", "").is(200).body; got != "other text" {
		t.Errorf("%q", got)
	}
	g.refused(g.in(v, "PUT", "file?path=/d/e/f", ""), 404, "")
	g.in(v, "PUT", "file?path=/d/e/f&force=true&uid=1000", "").is(201)
	g.refused(g.in(v, "POST", "dir?path=/d", ""), 409, "")
	g.in(v, "POST", "dir?path=/d&force=true", "").is(201)
	g.refused(g.in(v, "POST", "dir?path=/n/m", ""), 404, "")
	if e := entry(g.in(v, "POST", "dir?path=/n&mode=448", "").is(201)); e.Type != "directory" || e.Mode != 0o700 {
		t.Errorf("%+v", e)
	}
	names := func(query string) (list []string) {
		t.Helper()
		var all []struct{ Path string }
		if err := json.Unmarshal([]byte(g.in(v, "GET", "dir?"+query, "").is(200).body), &all); err != nil {
			t.Error(err)
		}
		for _, e := range all {
			list = append(list, e.Path)
		}
		return list
	}
	if got := strings.Join(names("path=/"), " "); got != "/a.txt /d /n" {
		t.Error(got)
	}
	if got := strings.Join(names("path=/&depth=3"), " "); got != "/a.txt /d /d/e /d/e/f /n" {
		t.Error(got)
	}
	if e := entry(g.in(v, "PATCH", "path?path=/a.txt", `{"mode":420,"uid":1000}`).is(200)); e.Mode != 0o644 {
		t.Errorf("%+v", e)
	}
	for what, status := range map[string]int{
		`path?path=/no`: 404, `path?path=`: 400, `path`: 400, `dir?path=/no`: 404, `dir?path=/&depth=x`: 400, `file?path=/no`: 404, `file?path=/d`: 400,
		"path?path=" + strings.Repeat("x", 5000): 400,
	} {
		g.refused(g.in(v, "GET", what, ""), status, "")
	}
	for body, text := range map[string]string{`{"mode":4095}`: "permissions", `{"uid":0}`: "sandbox's user", `{"gid":5}`: "sandbox's user", `{"mode":"x"}`: ""} {
		g.refused(g.in(v, "PATCH", "path?path=/a.txt", body), 400, text)
	}
	g.refused(g.in(v, "PUT", "file?path=/x&mode=x", ""), 400, "mode")
	g.refused(g.in(v, "PUT", "file?path=/x&uid=0", ""), 400, "user's")
	g.refused(g.in(v, "DELETE", "path?path=/d/../", ""), 400, "cannot be removed")
	g.in(v, "DELETE", "path?path=/d", "").is(204)
	g.refused(g.in(v, "DELETE", "path?path=/d", ""), 404, "")

	// What a command has put there leads nowhere.
	secret := filepath.Join(g.stateDir, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Symlink("../../secret", filepath.Join(dir, "up")), os.Symlink(g.stateDir, filepath.Join(dir, "out"))); err != nil {
		t.Fatal(err)
	}
	if e := entry(g.in(v, "GET", "path?path=/up", "").is(200)); e.Type != "symlink" || e.Target != "../../secret" {
		t.Errorf("%+v", e)
	}
	for _, call := range [][3]string{
		{"GET", "file?path=/up"}, {"GET", "file?path=/out/secret"}, {"PUT", "file?path=/up", "x"}, {"PUT", "file?path=/out/new", "x"}, {"GET", "dir?path=/out"},
		{"PATCH", "path?path=/up", `{"mode":511}`}, {"PATCH", "path?path=/out/secret", `{"mode":511}`}, {"DELETE", "path?path=/out/secret"},
	} {
		if a := g.in(v, call[0], call[1], call[2]); a.status != 403 && a.status != 404 { // as a link of the machine's, or the volume's
			t.Errorf("%q: %d %s", call, a.status, a.body)
		}
	}
	if i, err := os.Stat(secret); err != nil || i.Size() != 6 || i.Mode() != 0o600 {
		t.Errorf("%v, %v", i, err)
	}
	if _, err := os.Stat(filepath.Join(g.stateDir, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made outside: %v", err)
	}

	// A token is of one volume and one key, and allows what the key does.
	w := g.volume(key, "more")
	g.refused(g.in(e2bVolume{ID: w.ID, Token: v.Token}, "GET", "path?path=/", ""), 401, "token")
	mac, of, _ := strings.Cut(v.Token, ".")
	for _, token := range []string{"", mac, "." + of, mac + ".x" + of, mac + ".", v.Token + "x", key} {
		g.refused(g.in(e2bVolume{ID: v.ID, Token: token}, "GET", "path?path=/", ""), 401, "token")
	}
	var seen e2bVolume
	if err := json.Unmarshal([]byte(g.call("GET", "/volumes/"+v.ID, "", "X-API-KEY", reader).is(200).body), &seen); err != nil || seen.Token == v.Token {
		t.Errorf("%+v, %v", seen, err)
	}
	g.in(seen, "GET", "file?path=/a.txt", "").is(200)
	g.refused(g.in(seen, "PUT", "file?path=/a.txt", "x"), 403, "")
	if err := g.keys.Revoke("k"); err != nil {
		t.Fatal(err)
	}
	g.refused(g.in(v, "GET", "path?path=/", ""), 401, "has ended")
	g.in(seen, "GET", "path?path=/", "").is(200)
}
