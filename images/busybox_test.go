package images

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// program is the smallest file with one program header.
func program(t *testing.T, kind elf.ProgType) []byte {
	t.Helper()
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var out bytes.Buffer
	for _, part := range []any{header, elf.Prog64{Type: uint32(kind)}} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestFindBusybox(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing := filepath.Join(dir, "missing")
	static := write("static", program(t, elf.PT_LOAD))
	dynamic := write("dynamic", program(t, elf.PT_INTERP))
	script := write("script", []byte("#!/bin/sh\n"))
	for _, tt := range []struct {
		paths []string
		want  string
		err   string
	}{
		{[]string{static}, static, ""},
		{[]string{missing, static}, static, ""},
		{[]string{dynamic, static}, "", "shared libraries"},
		{[]string{script}, "", "not a program"},
		{[]string{missing}, "", "no busybox at"},
	} {
		got, err := findBusybox(tt.paths)
		if got != tt.want || (err == nil) != (tt.err == "") {
			t.Errorf("%v: %q, %v", tt.paths, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), tt.err) || !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(corral.Hint(err), "busybox-static")) {
			t.Errorf("%v: %v, hint %q", tt.paths, err, corral.Hint(err))
		}
	}
}
