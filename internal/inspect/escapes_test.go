package inspect

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/escape"
)

func TestJudgeEscapes(t *testing.T) {
	result := func(o escape.Outcome) escape.Result {
		return escape.Result{ID: "ns/user", Tries: "makes a user namespace", Outcome: o, Detail: "it works"}
	}
	for _, tc := range []struct {
		name    string
		results []escape.Result
		status  doctor.Severity
		words   []string
	}{
		{"none", nil, doctor.Fail, []string{"no try", "not known"}},
		{"held", []escape.Result{result(escape.Held), result(escape.Held)}, doctor.OK, []string{"of 2 tries", " 2 were held"}},
		{"some not made", []escape.Result{result(escape.Held), result(escape.Unsupported)}, doctor.OK, []string{" 1 were held", "1 could not be made"}},
		{"gVisor", []escape.Result{result(escape.Inside)}, doctor.OK, []string{" 1 were held", "1 of them reached gVisor"}},
		{"escaped", []escape.Result{result(escape.Held), result(escape.Escaped)}, doctor.Fail, []string{"1 got out: ns/user (it makes a user namespace: it works)", "docs/reference/escape.md"}},
	} {
		t.Run(tc.name, func(t *testing.T) { check(t, "escape", doctor.Escapes(tc.results), tc.status, tc.words...) })
	}
}

// elfHead is the ELF header of a program for the machine, with one segment.
func elfHead(t *testing.T, machine elf.Machine, segment elf.ProgType) []byte {
	t.Helper()
	head := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	copy(head.Ident[:], elf.ELFMAG)
	head.Ident[elf.EI_CLASS], head.Ident[elf.EI_DATA], head.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var b bytes.Buffer
	for _, part := range []any{head, elf.Prog64{Type: uint32(segment)}} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestFindProber(t *testing.T) {
	dir := t.TempDir()
	at := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o755)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	amd64, dynamic := elfHead(t, elf.EM_X86_64, elf.PT_LOAD), elfHead(t, elf.EM_X86_64, elf.PT_INTERP)
	named, beside, onPath := at("named", amd64), at("beside/corral-escape", amd64), at("path/corral-escape", amd64)
	none := filepath.Join(dir, "none")
	for _, tc := range []struct {
		name, named, dir, path, arch string

		want  string
		fails string // instead
	}{
		{"named", named, filepath.Dir(beside), filepath.Dir(onPath), "amd64", named, ""},
		{"beside corral", "", filepath.Dir(beside), filepath.Dir(onPath), "amd64", beside, ""},
		{"on PATH", "", none, filepath.Dir(onPath), "amd64", onPath, ""},
		{"nowhere", "", none, none, "amd64", "", "corral-escape, which is neither in " + none + " nor on PATH"},
		{"another architecture", "", filepath.Dir(beside), none, "arm64", "", beside + " is for EM_X86_64 and does not run in a sandbox of linux/arm64"},
		{"an unknown architecture", named, none, none, "no-such-arch", "", "linux/no-such-arch"},
		{"with libraries", at("dynamic", dynamic), none, none, "amd64", "", "needs libraries"},
		{"no program", at("text", []byte("no program")), none, none, "amd64", "", "is no program for a sandbox"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("PATH", tc.path)
			got, err := findProber(tc.named, tc.arch, tc.dir)
			if got != tc.want || (err == nil) != (tc.fails == "") {
				t.Fatalf("%q, %v; want %q", got, err, tc.want)
			}
			if err == nil {
				return
			}
			fix := "GOARCH=" + tc.arch + " go install github.com/corral-exec/corral/cmd/corral-escape@"
			if !strings.Contains(err.Error(), tc.fails) || !strings.Contains(corral.Hint(err), fix) {
				t.Errorf("%v; %s", err, corral.Hint(err))
			}
		})
	}
}

func TestModuleVersion(t *testing.T) {
	for version, want := range map[string]string{
		"": "latest", "(devel)": "latest", "v1.2.3+dirty": "latest",
		"v1.2.3": "v1.2.3", "v0.0.0-20261124201303-eb55b32b55b3": "v0.0.0-20261124201303-eb55b32b55b3",
	} {
		if got := moduleVersion(&debug.BuildInfo{Main: debug.Module{Version: version}}); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}
