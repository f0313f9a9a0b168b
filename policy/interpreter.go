package policy

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

// resolve fills in the programs of a domain: the named ones and their interpreters;
// and their loaders.
func (j *judge) resolve(d *corral.Domain, programs []string) {
	seen := map[string]bool{}
	var add func(file string, depth int)
	add = func(file string, depth int) {
		if file == "" || seen[file] {
			return
		}
		seen[file] = true
		d.Programs = append(d.Programs, file)
		if strings.HasSuffix(file, "/") {
			return
		}
		h := j.header(file)
		if h.loader != "" && !slices.Contains(d.Loaders, h.loader) {
			d.Loaders = append(d.Loaders, h.loader)
		}
		if h.interpreter == "" || depth == maxInterpreters {
			return
		}
		add(h.interpreter, depth+1)
		if path.Base(h.interpreter) == "env" {
			add(j.throughEnv(h.argument), depth+1)
		}
	}
	for _, file := range programs {
		if strings.HasPrefix(file, "/") {
			add(file, 0)
		}
	}
	slices.Sort(d.Programs)
	slices.Sort(d.Loaders)
}

// maxInterpreters is how many interpreters of interpreters the kernel follows.
const maxInterpreters = 5

// throughEnv is the interpreter that env runs for a line "#!/usr/bin/env NAME". The
// kernel gives env the rest of that line as one argument.
func (j *judge) throughEnv(argument string) string {
	for _, w := range strings.Fields(argument) {
		if strings.HasPrefix(w, "-") || strings.Contains(w, "=") {
			continue
		}
		return j.look(j.req.Dir, w).path
	}
	return ""
}

// A header names the files that the kernel needs beside a program to execute it.
type header struct {
	loader                string // of an ELF file
	interpreter, argument string // of a script
}

// headers caches the headers of files of this machine. An entry counts while size and
// modification time of its file are the same.
var headers = struct {
	sync.Mutex
	of map[string]stamped
}{of: map[string]stamped{}}

type stamped struct {
	size int64
	time time.Time
	header
}

// maxHeaders is the most headers in the cache.
const maxHeaders = 1000

func (j *judge) header(file string) header {
	_, remember := j.view.(OS)
	if !remember {
		return readHeader(j.view, file)
	}
	info, err := j.view.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return header{}
	}
	headers.Lock()
	old, ok := headers.of[file]
	headers.Unlock()
	if ok && old.size == info.Size() && old.time.Equal(info.ModTime()) {
		return old.header
	}
	h := readHeader(j.view, file)
	headers.Lock()
	defer headers.Unlock()
	if len(headers.of) >= maxHeaders {
		clear(headers.of)
	}
	headers.of[file] = stamped{info.Size(), info.ModTime(), h}
	return h
}

// maxHeader is how much of a program is read, in bytes. The name of an ELF file's
// loader is near its beginning, unless a tool has moved it.
const maxHeader = 4096

func readHeader(view View, file string) header {
	f, err := view.Open(file)
	if err != nil {
		return header{}
	}
	defer f.Close()
	b := make([]byte, maxHeader)
	n, _ := io.ReadFull(f, b)
	b = b[:n]
	if line, ok := bytes.CutPrefix(b, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		name, argument, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(string(line), "\t", " ")), " ")
		if !strings.HasPrefix(name, "/") {
			return header{}
		}
		return header{interpreter: name, argument: argument}
	}
	return header{loader: elfLoader(b, f)}
}

// elfLoader is the loader that an ELF file names; empty if there is none.
func elfLoader(b []byte, f fs.File) string {
	const (
		classAt, orderAt = 4, 5
		interp           = 3 // PT_INTERP
	)
	if len(b) < 64 || string(b[:4]) != "\x7fELF" {
		return ""
	}
	var order binary.ByteOrder = binary.LittleEndian
	if b[orderAt] == 2 {
		order = binary.BigEndian
	}
	wide := b[classAt] == 2
	number := func(b []byte, at32, at64 int) uint64 {
		if wide {
			return order.Uint64(b[at64:])
		}
		return uint64(order.Uint32(b[at32:]))
	}
	at := number(b, 28, 32)
	size, count := order.Uint16(b[42:]), order.Uint16(b[44:])
	if wide {
		size, count = order.Uint16(b[54:]), order.Uint16(b[56:])
	}
	least := uint64(32)
	if wide {
		least = 56
	}
	for range min(count, 64) {
		if at > uint64(len(b)) || uint64(len(b))-at < least {
			return ""
		}
		p := b[at:]
		at += uint64(size)
		if order.Uint32(p) != interp {
			continue
		}
		offset, length := number(p, 4, 8), number(p, 16, 32)
		if length == 0 || length > maxHeader || offset > 1<<40 {
			return ""
		}
		var name []byte
		if end := offset + length; end <= uint64(len(b)) {
			name = b[offset:end]
		} else if r, ok := f.(io.ReaderAt); ok {
			name = make([]byte, length)
			if _, err := r.ReadAt(name, int64(offset)); err != nil {
				return ""
			}
		}
		name, _, _ = bytes.Cut(name, []byte{0})
		if len(name) == 0 || name[0] != '/' {
			return ""
		}
		return string(name)
	}
	return ""
}
