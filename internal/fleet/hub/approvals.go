package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/approvals"
	"github.com/corral-exec/corral/internal/fleet/natskv"
	"github.com/corral-exec/corral/policy/approval"
)

const (
	nameFile = "gateway.name"
	maxHost  = 32 // bytes
)

// Approvals returns the store that all gateways share, and this gateway's lasting name
// among them. It is nil if they share nothing.
func (h *Hub) Approvals(ctx context.Context) (_ approval.Store, gateway string, err error) {
	if !h.Shared() {
		return nil, "", nil
	}
	if gateway, err = ownName(h.cfg.Dir); err != nil {
		return nil, "", err
	}
	s, err := approvals.Open(ctx, natskv.Config{Conn: h.conn, Key: h.key, Log: h.log})
	if err != nil {
		return nil, "", err
	}
	h.log.Info("the approvals are shared with other gateways", "gateway", gateway)
	return s, gateway, nil
}

// ownName returns the gateway's name among others. It makes the name at the first
// start, from the machine's name and a random part. If the directory was copied it
// makes a new one: a command that was approved runs at the gateway that asked, and not
// at two.
func ownName(dir string) (string, error) {
	path, here := filepath.Join(dir, nameFile), placeOf(dir)
	text, err := readFile(path)
	name, place, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if err == nil && place == here && corral.ValidateID(name) == nil {
		return name, nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		host, _ := os.Hostname() // without it, the random part is the whole name
		name = strings.Trim(strings.Map(func(r rune) rune {
			if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' {
				return r
			}
			return -1
		}, strings.ToLower(firstLabel(host)))+"-"+corral.NewID()[:8], "-")
		err = writeNew(path, []byte(name+"\n"+here+"\n"))
	}
	if err != nil {
		return "", corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "cannot tell the gateway from others that share its approvals: %w", err)
	}
	return name, nil
}

// placeOf distinguishes a directory from a copy of it, even on another machine if the
// system has a machine ID.
func placeOf(dir string) string {
	machine, _ := readFile("/etc/machine-id") // not every system has it
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(machine)) + "\n" + dir))
	return hex.EncodeToString(sum[:16])
}

// firstLabel returns the machine's own part of its name, shortened to maxHost.
func firstLabel(host string) string {
	host, _, _ = strings.Cut(host, ".")
	return host[:min(len(host), maxHost)]
}
