package gateway

import (
	"archive/tar"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/test/filestest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// Every operation on files, held against the document.
func TestFiles(t *testing.T) {
	dir := testdir.New(t)
	g := newRig(t, func(c *Config) {
		c.Files = func(_ context.Context, agent, name string) (files.FS, error) {
			if agent != "me" || name != "box" {
				return nil, corral.Errorf(corral.ErrNotFound, "", "there is no sandbox %s", name)
			}
			return files.Directory{Path: dir, Root: "/workspace"}, nil
		}
	})
	const base = "/v1/sandboxes/box/files"
	do := func(method, path, body string) answer {
		t.Helper()
		return g.do(method, base+path, body, api.HeaderAgent, "me", "Content-Type", map[bool]string{true: api.TypeTar, false: api.TypeBytes}[strings.HasPrefix(path, "/archive")])
	}
	var i files.Info
	if err := json.Unmarshal([]byte(do("PUT", "/content?path=a/b.txt&parents=true&mode=640", "0123456789").is(200).body), &i); err != nil || i.Path != "/workspace/a/b.txt" || i.Size != 10 || i.Mode != 0o640 {
		t.Errorf("%+v, %v", i, err)
	}
	do("PUT", "/content?path=a/b.txt&new=true", "").code(409, "conflict")
	do("PUT", "/content?path=a/b.txt&mode=4755", "").code(400, "invalid")
	do("PUT", "/content?path=none/b.txt", "x").code(404, "not-found")
	a := do("GET", "/content?path=/workspace/a/b.txt&offset=2&limit=3", "").is(200)
	if err := json.Unmarshal([]byte(a.header.Get(api.HeaderFile)), &i); a.body != "234" || err != nil || i.Size != 10 {
		t.Errorf("%q, %+v, %v", a.body, i, err)
	}
	do("GET", "/content?path=a", "").code(400, "invalid")
	do("GET", "/content?path=a/b.txt&offset=-1", "").code(400, "invalid")
	do("POST", "/directory?path=a/d&mode=700", "").is(204)
	do("POST", "/directory?path=a/d", "").code(409, "conflict")
	if body := do("GET", "/stat?path=a/d", "").is(200).body; !strings.Contains(body, `"mode":"0700"`) || !strings.Contains(body, `"type":"directory"`) {
		t.Errorf("%s", body)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "\xff"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var page files.Page
	if err := json.Unmarshal([]byte(do("GET", "?path=a&limit=2", "").is(200).body), &page); err != nil || len(page.Entries) != 2 || page.Next == "" {
		t.Errorf("%+v, %v", page, err)
	}
	next := do("GET", "?path=a&after="+page.Next, "").is(200).body
	if err := json.Unmarshal([]byte(next), &page); err != nil || string(page.Entries[0].PathBytes) != "/workspace/a/\xff" {
		t.Errorf("%s, %v", next, err)
	}
	do("DELETE", "?path=a/%ff", "").is(204)
	do("DELETE", "?path=a", "").code(409, "conflict")

	archive := do("GET", "/archive?path=a", "").is(200)
	if got := archive.header.Get("Content-Type"); got != api.TypeTar {
		t.Errorf("the type is %s", got)
	}
	do("GET", "/archive?path=none", "").code(404, "not-found")
	do("GET", "/archive?path=a&maxEntries=x", "").code(400, "invalid")
	do("POST", "/directory?path=copy", "").is(204)
	if body := do("PUT", "/archive?path=copy", archive.body).is(200).body; strings.TrimSpace(body) != `{"entries":3,"bytes":10,"skipped":0}` {
		t.Errorf("%s", body)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "copy/a/b.txt")); err != nil || string(got) != "0123456789" {
		t.Errorf("%q, %v", got, err)
	}
	evil := filestest.Pack(t, tar.Header{Name: "../evil", PAXRecords: map[string]string{"content": "x"}})
	do("PUT", "/archive?path=copy", string(evil)).code(400, "invalid")
	do("PUT", "/archive?path=copy&maxEntries=2", archive.body).code(400, "invalid")
	do("DELETE", "?path=copy&all=true", "").is(204)
	do("DELETE", "?path=.&all=true", "").code(400, "invalid")
	do("GET", "/stat?path=../etc", "").code(403, "denied")
	g.send(g.careless(), "http://localhost"+base+"/stat", "GET", "", api.HeaderAgent, "me").code(400, "invalid")
	// It is the agent's alone.
	g.do("GET", base+"/stat?path=a", "", api.HeaderAgent, "other").code(404, "not-found")
	g.do("GET", "/v1/sandboxes/other/files/stat?path=a", "", api.HeaderAgent, "me").code(404, "not-found")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there is %v, %v", entries, err)
	}
}
