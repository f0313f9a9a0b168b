package foreground

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/procfs"
)

// Redirected reports whether f is standard input that was given for this call, by a
// pipe or a redirection, and not inherited. Inherited input also belongs to our parent:
// reading it would eat the rest of a script that a shell reads from there, or the lines
// of a loop
//
//	while read -r host; do corral exec "ping -c1 $host"; done <hosts
//
// as ssh without -n does. If it cannot tell, it returns true.
func Redirected(f *os.File) bool { return redirectedFrom(f, os.Getppid(), "/proc") }

// transparent programs run one command and never read standard input: their input is
// meant for the command.
var transparent = []string{"catatonit", "docker-init", "doas", "dumb-init", "strace", "sudo", "time", "timeout", "tini"}

func redirectedFrom(f *os.File, parent int, proc string) bool {
	ours, err := f.Stat()
	if err != nil || ours.Mode()&os.ModeCharDevice != 0 {
		return false // closed, /dev/null or a terminal
	}
	for parent > 0 {
		dir := fmt.Sprintf("%s/%d", proc, parent)
		theirs, err := os.Stat(dir + "/fd/0")
		if err != nil || !os.SameFile(ours, theirs) {
			return true
		}
		exe, err := os.Readlink(dir + "/exe")
		switch program := filepath.Base(exe); {
		case err != nil:
			return false
		case program == "dash" && ours.Mode().IsRegular():
			// The parent redirects its own input before it forks. If nothing of the
			// file has been read yet, it is most likely for us.
			off, err := f.Seek(0, io.SeekCurrent)
			return err == nil && off == 0
		case !slices.Contains(transparent, program):
			return false
		}
		s, err := procfs.Read(dir)
		if err != nil {
			return true // the parent has ended
		}
		parent = s.Parent
	}
	return true
}

// Pending reports whether f is a pipe or a socket with data to read.
func Pending(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return false
	}
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ) // also known as FIONREAD
	return err == nil && n > 0
}
