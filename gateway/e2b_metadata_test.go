package gateway

import (
	"encoding/json"
	"maps"
	"strings"
)

func (g *e2bRig) metadata(at []string) {
	// Metadata is of the last who wrote the file, its names without case.
	var entry struct {
		Entry struct{ Metadata map[string]string }
	}
	for _, c := range []struct {
		headers []string
		want    map[string]string
	}{
		{[]string{"X-Metadata-Kind", "a plot", "X-METADATA-owner.id", "7"}, map[string]string{"kind": "a plot", "owner.id": "7"}},
		{[]string{"X-Metadata-Kind", ""}, map[string]string{"kind": ""}},
		{nil, nil},
	} {
		var done []struct{ Metadata map[string]string }
		if err := json.Unmarshal([]byte(g.call("POST", "/files?path=m", "x", append(at, c.headers...)...).is(200).body), &done); err != nil {
			g.t.Error(err)
		}
		if len(done) != 1 || !maps.Equal(done[0].Metadata, c.want) {
			g.t.Errorf("%v: %v", c.headers, done)
		}
		entry.Entry.Metadata = nil
		if err := json.Unmarshal([]byte(g.call("POST", "/filesystem.Filesystem/Stat", `{"path":"m"}`, append(at, "Content-Type", "application/json")...).is(200).body), &entry); err != nil {
			g.t.Error(err)
		}
		if !maps.Equal(entry.Entry.Metadata, c.want) {
			g.t.Errorf("%v: %v", c.headers, entry)
		}
	}
	g.refused(g.call("POST", "/files?path=m", "x", append(at, "X-Metadata-K", "\u00fc")...), 400, "X-Metadata-K")
	g.refused(g.call("POST", "/files?path=m", "x", append(at, "X-Metadata-K", strings.Repeat("x", 4096))...), 400, "4096")
	g.refused(g.call("POST", "/files?path=/tmp/m", "x", append(at, "X-Metadata-K", "v")...), 403, "workspace")
}
