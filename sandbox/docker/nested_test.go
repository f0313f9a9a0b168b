package docker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
)

// What a program in a container shares with the engine's machine is what is
// mounted there, unless something else hides it.
func TestSharing(t *testing.T) {
	file := filepath.Join(testdir.New(t), "mountinfo")
	const table = `690 600 0:50 / / rw - overlay overlay rw
691 690 0:52 / /proc rw - proc proc rw
700 690 254:0 /srv/data /data rw - ext4 /dev/vda rw
701 700 0:60 / /data/in\040memory rw - tmpfs tmpfs rw
702 690 254:0 /var/lib/docker/volumes/v/_data /v ro - ext4 /dev/vda rw
703 690 254:0 /srv/sock /run/engine rw - ext4 /dev/vda rw
`
	if err := os.WriteFile(file, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	points, err := mountPoints(file)
	if err != nil {
		t.Fatal(err)
	}
	mounts := []container.MountPoint{
		{Type: mount.TypeBind, Source: "/srv/data", Destination: "/data", RW: true},
		{Type: mount.TypeVolume, Name: "v", Source: "/var/lib/docker/volumes/v/_data", Destination: "/v"},
		{Type: mount.TypeBind, Source: "/srv/sock", Destination: "/var/run/engine", RW: true},
		{Type: mount.TypeBind, Source: "/srv/gone", Destination: "/gone", RW: true},
		{Type: mount.TypeTmpfs, Destination: "/data/in memory", RW: true},
	}
	real := func(path string) (string, error) {
		if path == "/gone" {
			return "", os.ErrNotExist
		}
		return strings.Replace(path, "/var/run/", "/run/", 1), nil
	}
	want := []engine.Mount{
		{Source: "/srv/data", Target: "/data"},
		{Source: "/var/lib/docker/volumes/v/_data", Target: "/v", ReadOnly: true, Volume: true},
		{Source: "/srv/sock", Target: "/run/engine"},
		{Target: "/"}, {Target: "/proc"}, {Target: "/data/in memory"},
	}
	if got := sharing(mounts, points, real); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

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
		"an overlay of many directories": {"31 1 0:28 / / rw - overlay overlay rw,lowerdir=" + strings.Repeat("/var/lib/layers/l:", 8<<10) +
			"\n708 690 254:0 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw - ext4 /dev/vda rw", id},
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
