package landlock

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxRefused bounds how many refused programs are remembered of a command.
const maxRefused = 8

// A Jail is a command in its domain.
type Jail struct {
	watch *watch // nil: nothing is asked about
	rules *ruleset
	pid   int // of its first process, whose number is also that of its session
	// first: the processes of its session execute its first program, which is no
	// loader. The watch alone uses it.
	first bool

	mu      sync.Mutex
	refused []string
}

// Forget is to be called before the command's first process is reaped: its number may
// be another's then. A nil Jail has nothing to forget.
func (j *Jail) Forget() {
	if j != nil && j.watch != nil {
		j.watch.remove(j)
	}
}

// Refused are the programs that the command, or what it started, tried to execute
// and the kernel refused: the first few. Nil of a nil Jail.
func (j *Jail) Refused() []string {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.refused)
}

// note is for people, who may have to do without: whose process it was cannot always
// be told.
func (j *Jail) note(path string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.refused) < maxRefused && !slices.Contains(j.refused, path) {
		j.refused = append(j.refused, path)
	}
}

// lookAt notes a program that Landlock is about to refuse. What the process says
// may change before the kernel reads it; this is for people.
func (j *Jail) lookAt(n *notification, dir int32, address uint64) {
	proc := procDir(n.pid)
	name := readString(int(n.pid), address)
	if name == "" {
		return // a descriptor, or nothing that can be executed
	}
	switch {
	case filepath.IsAbs(name):
		name = proc + "/root" + name
	case dir == unix.AT_FDCWD:
		name = proc + "/cwd/" + name
	default:
		name = proc + "/fd/" + strconv.Itoa(int(dir)) + "/" + name
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return // there is none
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 {
		return
	}
	f := file{st.Dev, st.Ino}
	if j.rules.programs[f] || j.rules.loaders[f] { // a loader gets no further than its first file
		return
	}
	held := "/proc/self/fd/" + strconv.Itoa(fd) // which opens this very file, whatever has its name by now
	path, err := os.Readlink(held)
	if err != nil {
		return
	}
	if !slices.ContainsFunc(j.rules.directories, func(d string) bool { return strings.HasPrefix(path, d) }) {
		j.note(path)
		return
	}
	if in := interpreter(held); in != "" && unix.Stat(in, &st) == nil && !j.rules.programs[file{st.Dev, st.Ino}] &&
		!slices.ContainsFunc(j.rules.directories, func(d string) bool { return strings.HasPrefix(in, d) }) {
		j.note(in)
	}
}

// interpreter is that of a script; empty if it is none.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 256)
	k, _ := io.ReadFull(f, b)
	line, ok := bytes.CutPrefix(b[:k], []byte("#!"))
	if !ok {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return ""
	}
	real, err := filepath.EvalSymlinks(words[0])
	if err != nil {
		return words[0]
	}
	return real
}

// readString reads a string of a process, page by page; empty if it cannot be read.
func readString(pid int, address uint64) string {
	const page = 4096
	buf := make([]byte, 0, unix.PathMax)
	for len(buf) < unix.PathMax && address != 0 {
		size := min(page-int(address%page), unix.PathMax-len(buf))
		part := buf[len(buf) : len(buf)+size]
		local := []unix.Iovec{{Base: &part[0]}}
		local[0].SetLen(size)
		n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: size}}, 0)
		if err != nil || n <= 0 {
			return ""
		}
		if end := bytes.IndexByte(part[:n], 0); end >= 0 {
			return string(buf[:len(buf)+end])
		}
		buf = buf[:len(buf)+n]
		address += uint64(n)
	}
	return ""
}
