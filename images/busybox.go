package images

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
)

// busyboxPaths are where Debian's packages have it; the first that is there
// counts. busybox-static and busybox both install the same path, and only the
// first is of use in an image that has no C library.
var busyboxPaths = []string{"/usr/bin/busybox", "/bin/busybox"}

// busyboxLimit is more than any busybox has.
const busyboxLimit = 16 << 20

type imageFile struct {
	Path, Text string // a directory or a link has no Text
	Link       string
	Mode       uint32 // as Unix has it; of a directory with the type 0o040000
}

// The profile sets PATH, as Debian's does, to something else than the image's
// configuration: what is put before PATH must be put there after the profile.
// It starts nothing: as that of the Debian images, it knows root by the owner
// of the profile.
const busyboxProfile = `# The login profile of Corral's test image. As Debian's, it sets PATH anew.
if [ -O /etc/profile ]; then
  PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
else
  PATH="/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
fi
export PATH
`

const imageDir = 0o040000

// busyboxContent is the image without busybox itself and the links to it.
var busyboxContent = []imageFile{
	{Path: "bin", Mode: imageDir | 0o755},
	{Path: "dev", Mode: imageDir | 0o755},
	{Path: "etc", Mode: imageDir | 0o755},
	{Path: "etc/group", Mode: 0o644, Text: "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"},
	{Path: "etc/hostname", Mode: 0o644, Text: "localhost\n"},
	{Path: "etc/hosts", Mode: 0o644, Text: hostsFile},
	{Path: "etc/nsswitch.conf", Mode: 0o644, Text: "hosts: files dns\n"},
	{Path: "etc/passwd", Mode: 0o644, Text: "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/workspace:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"},
	{Path: "etc/profile", Mode: 0o644, Text: busyboxProfile},
	{Path: "etc/resolv.conf", Mode: 0o644, Text: "\n"},
	{Path: "home", Mode: imageDir | 0o755},
	{Path: "proc", Mode: imageDir | 0o555},
	{Path: "root", Mode: imageDir | 0o700},
	{Path: "run", Mode: imageDir | 0o755},
	{Path: "sbin", Link: "bin"},
	{Path: "sys", Mode: imageDir | 0o555},
	{Path: "tmp", Mode: imageDir | 0o1777},
	{Path: "usr", Mode: imageDir | 0o755},
	{Path: "usr/bin", Link: "../bin"},
	{Path: "usr/local", Mode: imageDir | 0o755},
	{Path: "usr/local/bin", Mode: imageDir | 0o755},
	{Path: "usr/sbin", Link: "../bin"},
	{Path: "var", Mode: imageDir | 0o755},
	{Path: "var/tmp", Mode: imageDir | 0o1777},
	{Path: "workspace", Mode: imageDir | 0o1777},
}

const hostsFile = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"

func checkBusybox() error {
	_, err := findBusybox(busyboxPaths)
	return err
}

// findBusybox is the path of a busybox that runs without any other file.
func findBusybox(paths []string) (string, error) {
	const hint = "install it: apt-get install busybox-static"
	for _, path := range paths {
		f, err := elf.Open(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return "", corral.Errorf(corral.ErrUnavailable, hint, "cannot build image %s: %s is not a program for this machine: %w", Busybox, path, err)
		}
		dynamic := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		f.Close() // it was only read
		if dynamic {
			return "", corral.Errorf(corral.ErrUnavailable, hint, "cannot build image %s: %s needs shared libraries", Busybox, path)
		}
		return path, nil
	}
	return "", corral.Errorf(corral.ErrUnavailable, hint, "cannot build image %s: no busybox at %s", Busybox, strings.Join(paths, " or "))
}

func buildBusybox(ctx context.Context, b building, report Progress) (rootfs, error) {
	path, err := findBusybox(busyboxPaths)
	if err != nil {
		return nil, err
	}
	report(Event{Phase: PhaseInstall, Message: "using " + path})
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot build image %s: %w", Busybox, err)
	}
	if info.Size() > busyboxLimit {
		return nil, corral.Errorf(corral.ErrUnavailable, "install Debian's busybox-static", "cannot build image %s: %s has %d bytes", Busybox, path, info.Size())
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot build image %s: %w", Busybox, err)
	}
	list, err := exec.CommandContext(ctx, path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot build image %s: ask %s for its applets: %w", Busybox, path, err)
	}
	mtime := info.ModTime()
	if !b.epoch.IsZero() && mtime.After(b.epoch) {
		mtime = b.epoch
	}
	return busyboxRoot(binary, appletNames(list), mtime), nil
}

var appletName = lazy.Regexp(`^[A-Za-z0-9\[][A-Za-z0-9_.+\[-]*$`)

// appletNames reads the output of busybox --list.
func appletNames(list []byte) []string {
	var names []string
	for line := range strings.Lines(string(list)) {
		if name := strings.TrimSpace(line); appletName().MatchString(name) && name != "busybox" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// busyboxRoot is the image's root file system, of the age of busybox itself.
func busyboxRoot(binary []byte, applets []string, mtime time.Time) memoryFS {
	var entries []entry
	for _, f := range busyboxContent {
		switch {
		case f.Link != "":
			entries = append(entries, linkEntry(f.Path, f.Link, mtime))
		case f.Mode&imageDir != 0:
			e := dirEntry(f.Path, 0, mtime)
			e.Mode = int64(f.Mode &^ imageDir)
			entries = append(entries, e)
		default:
			entries = append(entries, fileEntry(f.Path, os.FileMode(f.Mode), []byte(f.Text), mtime))
		}
	}
	entries = append(entries, fileEntry("bin/busybox", 0o755, binary, mtime))
	for _, name := range applets {
		entries = append(entries, linkEntry("bin/"+name, "busybox", mtime))
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	return memoryFS{tree{entries, mtime.Truncate(time.Second)}}
}
