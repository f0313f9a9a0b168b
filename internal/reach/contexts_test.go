package reach

import (
	"fmt"
	"sync"
	"testing"
)

// Two logins at a time are both remembered.
func TestContextsAtOnce(t *testing.T) {
	dir := t.TempDir()
	getenv := func(name string) string { return map[string]string{"XDG_CONFIG_HOME": dir, "HOME": dir}[name] }
	const logins = 20
	var all sync.WaitGroup
	for i := range logins {
		all.Go(func() {
			if _, err := ChangeContexts(t.Context(), getenv, func(c *Contexts) error {
				c.Contexts[fmt.Sprint("gateway-", i)] = Context{URL: "https://example.com"}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if c, err := ReadContexts(getenv); err != nil || len(c.Contexts) != logins {
		t.Errorf("%d contexts, %v", len(c.Contexts), err)
	}
}
