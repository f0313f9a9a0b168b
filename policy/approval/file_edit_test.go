package approval

import (
	"os"
	"testing"

	"github.com/corral-exec/corral/policy"
)

// What a person writes to the file while Corral changes it is not lost.
func TestEditedMeanwhile(t *testing.T) {
	const edited = `{"version": 1, "agents": {"*": {"denylist": ["rm"]}}}`
	for _, before := range []string{"", `{"version": 1}`} {
		f := newFile(t, before)
		meanwhile := func() {
			if before != edited {
				ok(t, os.WriteFile(f.Path(), []byte(edited), 0o600))
			}
			before = edited
		}
		ok(t, f.edit(func(d *document) error {
			meanwhile()
			list, err := d.listOf("main", policy.Allow)
			if err == nil {
				list.items = append(list.items, newNode("/bin/ls"))
			}
			return err
		}))
		h, err := f.Rules("")
		if err != nil || len(h.Rules) != 2 || h.Rules[0].Pattern != "rm" || h.Rules[1].Pattern != "/bin/ls" {
			t.Errorf("%+v, %v", h.Rules, err)
		}
	}
}
