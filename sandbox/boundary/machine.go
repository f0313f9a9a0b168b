package boundary

import (
	"bufio"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// Machine is what there is to protect on this machine: the homes of its people,
// of this program's environment and account, and the sockets of engines.
// Corral's own directories are to be added.
func Machine(getenv func(string) string) Sources {
	var s Sources
	for _, name := range []string{"HOME", "OPENCLAW_HOME"} {
		s.addHome(getenv(name))
	}
	if u, err := user.Current(); err == nil {
		s.addHome(u.HomeDir)
	}
	if f, err := os.Open("/etc/passwd"); err == nil {
		s.Homes = append(s.Homes, accountHomes(f)...)
		f.Close()
	}
	for _, name := range []string{"DOCKER_HOST", "CONTAINER_HOST", "BUILDKIT_HOST", "CONTAINERD_ADDRESS", "SSH_AUTH_SOCK"} {
		if p := strings.TrimPrefix(getenv(name), "unix://"); strings.HasPrefix(p, "/") {
			s.Sockets = append(s.Sockets, p)
		}
	}
	if f, err := os.Open("/proc/net/unix"); err == nil {
		s.Sockets = append(s.Sockets, listening(f)...)
		f.Close()
	}
	return s
}

func (s *Sources) addHome(dir string) {
	if filepath.IsAbs(dir) && filepath.Clean(dir) != "/" {
		s.Homes = append(s.Homes, dir)
	}
}

// maxLines bounds what is read of a file of the machine.
const maxLines = 100_000

// accountHomes are the home directories of people, by a file like /etc/passwd.
// Those of services are often directories without credentials.
func accountHomes(r io.Reader) []string {
	var list []string
	lines := bufio.NewScanner(r)
	for n := 0; n < maxLines && lines.Scan(); n++ {
		f := strings.Split(lines.Text(), ":")
		if len(f) < 7 {
			continue
		}
		uid, err := strconv.Atoi(f[2])
		if err != nil || uid != 0 && uid < 1000 || uid == 65534 {
			continue
		}
		if home := filepath.Clean(f[5]); filepath.IsAbs(home) && strings.Count(home, "/") > 1 || home == "/root" {
			list = append(list, home)
		}
	}
	return list
}

// listening are the sockets of engines that are bound, by /proc/net/unix: their
// places can be configured, so that no list of them would do.
func listening(r io.Reader) []string {
	var list []string
	lines := bufio.NewScanner(r)
	for n := 0; n < maxLines && lines.Scan(); n++ {
		// Num RefCount Protocol Flags Type St Inode Path
		i := strings.IndexByte(lines.Text(), '/')
		if i < 0 {
			continue
		}
		if p := lines.Text()[i:]; isEngineSocket(filepath.Base(p)) {
			list = append(list, p)
		}
	}
	return list
}

// Real is a path as it is to be mounted: without symbolic links.
func Real(path string) (string, error) { return resolve(filepath.Clean(path)) }
