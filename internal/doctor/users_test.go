package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDoctorUsers(t *testing.T) {
	check(t, "own", usersFinding("1879048192-1879113727", "", nil), OK, "a user of its own", "1879048192-1879113727")
	check(t, "rootless", usersFinding("", "the engine is rootless", nil), OK, "rootless", "use up")
	check(t, "shared", usersFinding("", "sandbox.uidRange is shared", nil), Warn, "sandbox.uidRange is shared", "leave sandbox.uidRange out")
	check(t, "taken", usersFinding("1000-2000", "", []string{"ann (/etc/passwd)"}), Warn, "ann", "no other users in it")

	dir := t.TempDir()
	passwd, subuid := filepath.Join(dir, "passwd"), filepath.Join(dir, "subuid")
	for file, text := range map[string]string{
		passwd: "root:x:0:0::/:/\nann:x:1000:1000::/:/\nbad\nbob:x:2000:1::/:/\nzoe:x:2001:1::/:/\n",
		subuid: "low:900:100\nedge:900:101\nhigh:2000:65536\nabove:2001:5\nbad:x:y\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := namesIn(passwd, "1000-2000", accountID); !slices.Equal(got, []string{"ann (" + passwd + ")", "bob (" + passwd + ")"}) {
		t.Error(got)
	}
	if got := namesIn(subuid, "1000-2000", subordinateIDs); !slices.Equal(got, []string{"edge (" + subuid + ")", "high (" + subuid + ")"}) {
		t.Error(got)
	}
	if got := namesIn(filepath.Join(dir, "none"), "1000-2000", accountID); got != nil {
		t.Error(got)
	}
}
