//go:build e2e

package interactive_test

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
)

// image is what the sandbox runs on: this machine's programs with all that they
// need, so that nothing has to be fetched. It stays in the engine, for the next
// time; when one of its files changes it is made anew, and the old one removed.
const (
	image       = "corral/interactive-test:1"
	imageDigest = "corral.test.files" // a label: the digest of what it is made of
)

// imagePrograms are looked up on PATH. The directories in which Debian has them
// come first, so that no wrapper in a home directory is taken.
var imagePrograms = []string{
	"bash", "cat", "env", "htop", "id", "ls", "python3", "sleep", "ssh-keygen", "stty", "vim",
}

// imageTrees are taken as they are, but for what imageWithout matches.
var (
	imageTrees = []string{
		"/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo",
		"/etc/vim", "/usr/share/vim", "/usr/lib/locale/C.utf8", "/etc/inputrc", "/etc/profile",
	}
	imageWithout = regexp.MustCompile(`/terminfo/./(?:[^lstvx]|[^/]*[+])|` +
		`/vim/vim[0-9]*/(?:doc|lang|spell|tutor|pack)$|` +
		`/python3[^/]*/(?:test|tests|idlelib|lib2to3|tkinter|ensurepip|turtledemo|config-[^/]*|dist-packages|pydoc_data|(?:.*/)?__pycache__)$`)
)

// imageTexts are files of the image alone, and its empty directories.
var imageTexts = map[string]string{
	"/etc/passwd":        "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/workspace:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"/etc/group":         "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
	"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	"/etc/hosts":         "127.0.0.1 localhost\n",
	"/etc/hostname":      "localhost\n",
	"/etc/resolv.conf":   "",
	"/dev/":              "", "/proc/": "", "/run/": "", "/sys/": "", "/tmp/": "", "/var/tmp/": "", "/workspace/": "",
}

// makeImage has the engine have the image.
func makeImage(t *testing.T) {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if made.already {
		return
	}
	engine := enginetest.New(t).Images()
	root := imageRoot{}
	for name, text := range imageTexts {
		root.text(name, text)
	}
	if err := root.collect(); err != nil {
		t.Fatalf("cannot collect the files of the image: %v", err)
	}
	digest := root.digest()
	old, err := engine.Image(t.Context(), image)
	switch {
	case err == nil && old.Labels[imageDigest] == digest:
		made.already = true
		return
	case err != nil && !errdefs.IsNotFound(err):
		t.Fatal(err)
	}
	if err := root.importInto(t, engine, digest); err != nil {
		t.Fatalf("cannot import the image: %v", err)
	}
	if now, err := engine.Image(t.Context(), image); err != nil || now.Labels[imageDigest] != digest {
		t.Fatalf("the engine did not take the image: %v", err)
	}
	if old.ID != "" {
		err := engine.RemoveImage(t.Context(), old.ID)
		if err != nil && !errdefs.IsNotFound(err) {
			t.Errorf("cannot remove the image from before: %v", err)
		}
	}
	made.already = true
}

// made is what this process knows of the image.
var made struct {
	sync.Mutex
	already bool
}

// An imageRoot is a root file system: files of this machine by their paths,
// under which they are in the image as well, and texts.
type imageRoot map[string]imageFile

type imageFile struct {
	tar.Header
	text string // unless it is read from this machine
	here bool
}

func (r imageRoot) text(name, text string) {
	h := tar.Header{Name: name[1:], Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(text))}
	if dir := strings.TrimSuffix(name, "/"); dir != name {
		h.Mode, h.Typeflag = 0o755, tar.TypeDir
		if strings.HasSuffix(dir, "tmp") || dir == "/workspace" {
			h.Mode = 0o1777
		}
		name = dir
	}
	r[name] = imageFile{Header: h, text: text}
}

// collect adds this machine's files.
func (r imageRoot) collect() error {
	programs := []string{"/bin/sh"} // where everybody looks for it, with the link /bin
	for _, name := range imagePrograms {
		program, err := findProgram(name)
		if err != nil {
			return err
		}
		programs = append(programs, program)
	}
	python, err := exec.Command("/usr/bin/python3", "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").Output()
	if err != nil {
		return fmt.Errorf("ask python3 where its library is: %w", err)
	}
	library := strings.TrimSpace(string(python))
	for _, tree := range append([]string{library}, imageTrees...) {
		if err := r.tree(tree); err != nil {
			return err
		}
	}
	extensions, err := filepath.Glob(library + "/lib-dynload/*.so")
	if err != nil {
		return err
	}
	libraries, err := sharedLibraries(append(extensions, programs...))
	if err != nil {
		return err
	}
	for _, file := range append(libraries, programs...) {
		if err := r.file(file); err != nil {
			return err
		}
	}
	return nil
}

func findProgram(name string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/bin"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("%s is not installed; run e2e/setup.sh test", name)
}

var libraryLine = regexp.MustCompile(`(?m)^\t(?:.* => )?(/\S+) \(0x`)

// sharedLibraries are those that programs and libraries are linked with, and
// those that these are.
func sharedLibraries(files []string) ([]string, error) {
	out, err := exec.Command("ldd", files...).Output()
	if err != nil {
		return nil, fmt.Errorf("ask ldd for shared libraries: %w", err)
	}
	var list []string
	for _, match := range libraryLine.FindAllStringSubmatch(string(out), -1) {
		list = append(list, match[1])
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// tree adds a file with what is in it. What is not there is left out: Debian's
// packages do not all have all of it.
func (r imageRoot) tree(root string) error {
	return filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == root:
			return nil
		case err != nil:
			return err
		case imageWithout.MatchString(name):
			return skip(name)
		}
		return r.file(name)
	})
}

func skip(name string) error {
	if info, err := os.Lstat(name); err == nil && info.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// file adds a file with the directories above it, and what symbolic links on
// the way lead to.
func (r imageRoot) file(name string) error {
	const most = 40 // links on the way, as the kernel has it
	rest := strings.Split(strings.Trim(name, "/"), "/")
	at := "/"
	for links := 0; len(rest) > 0; {
		at, rest = path.Join(at, rest[0]), rest[1:]
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if err := r.add(at, info); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if links++; links > most {
			return fmt.Errorf("%s: too many symbolic links", name)
		}
		target := r[at].Linkname
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
		if at = path.Dir(at); path.IsAbs(target) {
			at = "/"
		}
	}
	return nil
}

func (r imageRoot) add(name string, info fs.FileInfo) error {
	if _, there := r[name]; there {
		return nil
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if link, err = os.Readlink(name); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	// Whose they are here is of no interest there, and set-user-ID less.
	clean := tar.Header{Name: name[1:], Typeflag: h.Typeflag, Mode: h.Mode & 0o1777, Size: h.Size, Linkname: h.Linkname, ModTime: h.ModTime}
	r[name] = imageFile{Header: clean, here: true}
	return nil
}

// names are in an order in which directories come before what is in them.
func (r imageRoot) names() []string {
	names := make([]string, 0, len(r))
	for name := range r {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// digest says what the image is made of, without reading it.
func (r imageRoot) digest() string {
	sum := sha256.New()
	for _, name := range r.names() {
		f := r[name]
		if f.Typeflag == tar.TypeDir {
			f.ModTime = time.Time{} // it changes with what is beside our files
		}
		fmt.Fprintf(sum, "%q %o %c %d %d %q %q\n", name, f.Mode, f.Typeflag, f.Size, f.ModTime.Unix(), f.Linkname, f.text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func (r imageRoot) importInto(t *testing.T, engine images.Engine, digest string) error {
	a, err := images.NewArchive(t.Context(), image, images.ImageConfig{
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}, Dir: "/workspace", Labels: map[string]string{imageDigest: digest},
	}, time.Unix(1e9, 0), images.LayerFunc(func(_ context.Context, w io.Writer) error { return r.write(w) }))
	if err != nil {
		return err
	}
	pr, pw := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := a.Write(t.Context(), pw)
		pw.CloseWithError(err)
		written <- err
	}()
	err = engine.Load(t.Context(), pr)
	pr.CloseWithError(errors.New("the engine has stopped reading"))
	return errors.Join(err, <-written)
}

func (r imageRoot) write(w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, name := range r.names() {
		f := r[name]
		if err := tw.WriteHeader(&f.Header); err != nil {
			return err
		}
		if f.Typeflag != tar.TypeReg {
			continue
		}
		if err := f.copyTo(tw, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return tw.Close()
}

func (f imageFile) copyTo(w io.Writer, name string) error {
	if !f.here {
		_, err := io.WriteString(w, f.text)
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() // it was only read
	_, err = io.Copy(w, file)
	return err
}
