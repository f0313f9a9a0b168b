//go:build linux

package exectest

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
)

func (w *world) environ(cmd corral.Command) []string {
	env := overlay(refEnv, cmd.Env)
	if cmd.TTY != nil && env["TERM"] == "" && !w.bad("sets no TERM") {
		env["TERM"] = "xterm-256color"
	}
	env[refToken] = w.token(cmd.ID)
	if len(cmd.PathPrepend) > 0 && !w.bad("ignores PathPrepend") {
		list := append(append([]string{}, cmd.PathPrepend...), env["PATH"])
		if w.bad("appends PathPrepend") {
			list = append([]string{env["PATH"]}, cmd.PathPrepend...)
		}
		env["PATH"] = strings.Join(list, ":")
	}
	var list []string
	if w.bad("inherits our environment") {
		list = os.Environ()
	}
	for k, v := range env {
		if v == "" && w.bad("drops empty variables") || k == "LANG" && w.bad("drops a variable") {
			continue
		}
		if w.bad("trims values") {
			v = strings.TrimSpace(v)
		}
		if w.bad("cuts values") {
			v = v[:min(len(v), 4096)]
		}
		if w.bad("ignores overrides") && refEnv[k] != "" && k != "PATH" {
			v = refEnv[k]
		}
		if w.bad("ignores PATH in Env") && k == "PATH" && cmd.Env["PATH"] != "" {
			v = refEnv[k]
		}
		if w.bad("makes values UTF-8") {
			v = strings.ToValidUTF8(v, "?")
		}
		list = append(list, k+"="+v)
	}
	if w.bad("keeps Env for the next command") {
		refEnvMu.Lock()
		defer refEnvMu.Unlock()
		for k, v := range cmd.Env {
			refEnvKept[k] = v
		}
		for k, v := range refEnvKept {
			list = append(list, k+"="+v)
		}
	}
	if w.bad("sets a variable twice") {
		list = append(list, "LANG=C")
	}
	return list
}

// token is what the descendants of a command are known by.
func (w *world) token(id string) string {
	if w.bad("counts commands by itself") {
		return "1"
	}
	return id
}

var (
	refEnvMu   sync.Mutex
	refEnvKept = map[string]string{}
)

func envValue(env []string, key string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

// lookup finds a program as a shell would, or says with which code that failed.
func lookup(name, dir, path string) (program string, code int) {
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, d := range strings.Split(path, ":") {
			candidates = append(candidates, filepath.Join(d, name))
		}
	}
	code = 127
	for _, c := range candidates {
		if !filepath.IsAbs(c) {
			c = filepath.Join(dir, c)
		}
		fi, err := os.Stat(c)
		switch {
		case err != nil:
		case fi.IsDir() || fi.Mode().Perm()&0o111 == 0:
			code = 126
		default:
			return c, 0
		}
	}
	return "", code
}
