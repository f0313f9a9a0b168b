package patch

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/sandbox/files"
)

// A gateway that is root changes and shows nothing that commands could not.
func TestUserRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has other rights than its user")
	}
	dir := t.TempDir()
	user := files.User{UID: 1234, GID: 4321}
	for _, name := range []string{"mine.txt", "locked/mine.txt", "shared/theirs.txt", "group/theirs.txt", "theirs.txt", "theirs/mine.txt", "closed/mine.txt", "sticky/theirs.txt"} {
		write(t, dir, map[string]string{name: "a\n"})
	}
	for name, of := range map[string]struct {
		uid, gid int
		mode     os.FileMode
	}{
		".": {user.UID, user.GID, 0o755}, "mine.txt": {user.UID, user.GID, 0o600},
		"locked": {user.UID, user.GID, 0o500}, "locked/mine.txt": {user.UID, user.GID, 0o400},
		"shared": {0, 0, 0o777}, "group": {0, user.GID, 0o775}, "sticky": {0, 0, 0o777 | os.ModeSticky},
		"theirs": {0, 0, 0o755}, "theirs/mine.txt": {user.UID, user.GID, 0o644},
		"closed": {0, 0, 0o700}, "closed/mine.txt": {user.UID, user.GID, 0o644},
	} {
		if err := os.Chown(filepath.Join(dir, name), of.uid, of.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), of.mode); err != nil {
			t.Fatal(err)
		}
	}
	tool := New(Config{Target: Directory{Path: dir, As: "/workspace", User: &user}})
	change := func(name string) string { return patchOf("*** Update File: "+name, "@@", "-a", "+b") }
	for _, c := range []struct{ input, refused string }{
		{change("mine.txt"), ""},
		{change("locked/mine.txt"), ""},
		{change("theirs.txt"), "it belongs to user 0"},
		{patchOf("*** Delete File: theirs.txt"), ""}, // as rm does in a directory of one's own
		{change("theirs/mine.txt"), "may not change the directory theirs"},
		{patchOf("*** Add File: theirs/new/x", "+x"), "may not change the directory theirs"},
		{patchOf("*** Update File: mine.txt", "*** Move to: theirs/x"), "may not change the directory theirs"},
		{patchOf("*** Delete File: theirs/mine.txt"), "may not change the directory theirs"},
		{change("closed/mine.txt"), "may not enter the directory closed"},
		{patchOf("*** Add File: shared/x", "+x"), ""},
		{change("shared/theirs.txt"), "it belongs to user 0"},
		{patchOf("*** Add File: group/x", "+x"), ""},
		{patchOf("*** Delete File: sticky/theirs.txt"), "may not change the directory sticky"},
	} {
		before := snapshot(t, dir)
		r := tool.Call(t.Context(), callArguments(t, c.input))
		if c.refused == "" {
			if r.Failed() {
				t.Errorf("%s: %+v", c.input, r)
			}
			continue
		}
		if r.Status != StatusDenied || !strings.Contains(r.Text(), c.refused) {
			t.Errorf("%s: %+v", c.input, r)
		}
		if after := snapshot(t, dir); !maps.Equal(after, before) {
			t.Errorf("%s: %q, was %q", c.input, after, before)
		}
	}
}
