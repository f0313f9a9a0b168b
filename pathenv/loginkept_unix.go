//go:build unix

package pathenv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dependsOn is a digest of everything that is known to change a login shell's answer: the
// user, the shell, its environment, and the files that shells read. It is empty if one of
// the files changed just now, or there is no home directory.
func dependsOn(shell string, env []string, now time.Time) string {
	home := envValue(env, "HOME")
	if !filepath.IsAbs(home) {
		return ""
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d\x00", os.Geteuid())
	newest := time.Time{}
	look := func(path string) {
		fmt.Fprintf(&b, "%s\x00", path)
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			fmt.Fprintf(&b, "%v\x00", err)
			return
		}
		changed := time.Unix(st.Ctim.Unix())
		if changed.After(newest) {
			newest = changed
		}
		fmt.Fprintf(&b, "%d %d %d %d %d %d\x00", st.Dev, st.Ino, st.Mode, st.Size, st.Mtim.Nano(), changed.UnixNano())
	}
	look(shell)
	for _, path := range profiles {
		if !filepath.IsAbs(path) {
			path = filepath.Join(home, path)
		}
		look(path)
		list, _ := os.ReadDir(path) // empty for a file
		for _, e := range list {
			look(filepath.Join(path, e.Name()))
		}
	}
	for _, dir := range usualDirs { // only whether they exist counts, not their content
		info, err := os.Stat(filepath.Join(home, dir))
		fmt.Fprintf(&b, "%t\x00", err == nil && info.IsDir())
	}
	if newest.After(now.Add(-settled)) {
		return ""
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains(transient, name) {
			fmt.Fprintf(&b, "%s\x00", kv)
		}
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}

func envValue(env []string, name string) string {
	for _, kv := range env {
		if n, value, _ := strings.Cut(kv, "="); n == name {
			return value
		}
	}
	return ""
}

// readOwn reads a file that only this user can write and read.
func readOwn(file string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 || info.Size() > limit {
		return nil, errors.New("it is not this user's alone")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return bytes.TrimSuffix(data, []byte{'\n'}), err
}
