package seccomp

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/corral-exec/corral"
)

//go:embed amd64.json
var amd64 []byte

//go:embed arm64.json
var arm64 []byte

// Profile is the profile for engines of an architecture, as GOARCH names it; nil if
// there is none for it: then the engine's own applies.
func Profile(arch string) *specs.LinuxSeccomp {
	data := map[string][]byte{"amd64": amd64, "arm64": arm64}[arch]
	if data == nil {
		return nil
	}
	var p specs.LinuxSeccomp
	if err := json.Unmarshal(data, &p); err != nil {
		panic(err) // a test reads it
	}
	return &p
}

// MaxProfile bounds a profile that is read, in bytes.
const MaxProfile = 1 << 20

// Digest tells profiles apart. That of nil is of Corral's own ones together, and computed
// once: it takes a millisecond.
func Digest(p *specs.LinuxSeccomp) string {
	if p == nil {
		return ownDigest()
	}
	return digest(p)
}

var ownDigest = sync.OnceValue(func() string { return digest(Profile("amd64"), Profile("arm64")) })

func digest(list ...*specs.LinuxSeccomp) string {
	b, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("cannot write a seccomp profile down: %v", err)) // strings and numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Read reads a user's profile from a file: see Parse.
func Read(path string) (*specs.LinuxSeccomp, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	return Parse(f)
}

// Parse reads a user's profile, in the form of the OCI runtime specification. It
// refuses one that allows calls it does not name, and all that the specification does
// not have: archMap, includes and excludes of Docker's form would mean nothing to
// other engines.
func Parse(r io.Reader) (*specs.LinuxSeccomp, error) {
	const hint = "write it in the form of the OCI runtime specification: defaultAction, architectures, syscalls with names, action and args"
	data, err := io.ReadAll(io.LimitReader(r, MaxProfile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the seccomp profile: %w", err)
	}
	if len(data) > MaxProfile {
		return nil, corral.Errorf(corral.ErrInvalid, hint, "the seccomp profile has more than %d bytes", MaxProfile)
	}
	var p specs.LinuxSeccomp
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, hint, "cannot read the seccomp profile: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, corral.Errorf(corral.ErrInvalid, hint, "there is something after the seccomp profile")
	}
	switch p.DefaultAction {
	case specs.ActErrno, specs.ActKill, specs.ActKillProcess, specs.ActKillThread, specs.ActTrap:
	default:
		return nil, corral.Errorf(corral.ErrDenied, "use SCMP_ACT_ERRNO as defaultAction, and name what is allowed",
			"the seccomp profile's defaultAction is %q: it allows what it does not name, which is as good as unconfined", p.DefaultAction)
	}
	if p.ListenerPath != "" || p.ListenerMetadata != "" {
		return nil, corral.Errorf(corral.ErrDenied, "leave listenerPath out", "the seccomp profile hands decisions to a program that listens at %q", p.ListenerPath)
	}
	for _, call := range p.Syscalls {
		if call.Action == specs.ActNotify {
			return nil, corral.Errorf(corral.ErrDenied, "use SCMP_ACT_ALLOW or SCMP_ACT_ERRNO", "the seccomp profile hands %s to another program", strings.Join(call.Names, ", "))
		}
	}
	return &p, nil
}
