package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/testdir"
)

func TestOwnContainer(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct{ line, want string }{
		"docker":          {"708 690 254:0 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw,relatime - ext4 /dev/vda rw", id},
		"docker, a disk":  {"708 690 254:0 /docker/containers/" + id + "/resolv.conf /etc/resolv.conf rw - ext4 /dev/vdb rw", id},
		"podman":          {"708 690 0:25 /containers/storage/overlay-containers/" + id + "/userdata/hosts /etc/hosts rw - tmpfs tmpfs rw", id},
		"another's file":  {"708 690 254:0 /var/lib/docker/containers/" + id + "/hostname /mnt/hostname rw - ext4 /dev/vda rw", ""},
		"no container":    {"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw", ""},
		"an odd ID":       {"708 690 254:0 /var/lib/docker/containers/xyz/hostname /etc/hostname rw - ext4 /dev/vda rw", ""},
		"what is no line": {"x", ""},
	} {
		file := filepath.Join(testdir.New(t), "mountinfo")
		if err := os.WriteFile(file, []byte("1 0 0:1 / /proc rw - proc proc rw\n"+c.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ownContainer(file); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := ownContainer(filepath.Join(testdir.New(t), "none")); err != nil || got != "" {
		t.Errorf("without /proc: %q, %v", got, err)
	}
}
