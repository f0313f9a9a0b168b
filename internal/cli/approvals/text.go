package approvals

import (
	"fmt"
	"time"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/policy/approval"
)

// describeApproval is all about an approval.
func describeApproval(rec approval.Record, now time.Time) []string {
	lines := []string{fmt.Sprintf("Approval %s (%s)", rec.Slug, rec.ID)}
	if rec.State == approval.Pending {
		lines = append(lines, "State:     pending; expires "+cmdline.WhenText(rec.ExpiresAt, now))
	} else {
		lines = append(lines, "State:     "+string(rec.State)+": "+app.Visible(rec.SettledAs(func(t time.Time) string { return cmdline.WhenText(t, now) })))
	}
	lines = append(lines, "Agent:     "+app.Visible(rec.Agent))
	if rec.SessionKey != "" {
		lines = append(lines, "From:      "+app.Visible(rec.SessionKey))
	}
	if rec.Gateway != "" {
		lines = append(lines, "Asked at:  the gateway "+app.Visible(rec.Gateway))
	}
	lines = append(lines, rec.About()...)
	return append(lines, rec.AboutAlways()...)
}
