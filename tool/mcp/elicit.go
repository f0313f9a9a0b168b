package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/tool"
)

// multiRound is the first version of the protocol in which a server does not send
// questions itself: a call returns the question, and the client repeats the call with the
// answer.
const multiRound = "2026-07-28"

// An elicitation asks the user of a client for the approvals of one call.
type elicitation struct {
	client *sdk.ServerSession
	params *sdk.CallToolParamsRaw
	rounds bool
	always error // why it may not be allowed for good; nil: it may

	asked *approval.Record // the approval that the call returns as a question
}

// elicitationOf is nil for a client whose user cannot be asked, or may not answer.
func (s *Server) elicitationOf(ctx context.Context, req *sdk.CallToolRequest) *elicitation {
	init := req.Session.InitializeParams()
	if init == nil || init.Capabilities == nil || init.Capabilities.Elicitation == nil {
		return nil
	}
	if can := init.Capabilities.Elicitation; can.Form == nil && can.URL != nil {
		return nil
	}
	e := &elicitation{client: req.Session, params: req.Params, rounds: init.ProtocolVersion >= multiRound}
	if s.cfg.Approves != nil {
		var may bool
		if may, e.always = s.cfg.Approves(ctx); !may {
			return nil
		}
	}
	return e
}

// errNextRound leaves an approval pending until the call is repeated.
var errNextRound = errors.New("the client was asked")

// approvalInput is the name of the question in a result.
const approvalInput = "approval"

// approve is a tool.Approver.
func (e *elicitation) approve(ctx context.Context, rec approval.Record) (approval.Answer, error) {
	if !e.rounds {
		got, err := e.client.Elicit(ctx, e.question(rec))
		if err != nil {
			return approval.Answer{}, err
		}
		return e.answer(rec, got)
	}
	got, ok := e.params.InputResponses[approvalInput].(*sdk.ElicitResult)
	if !ok || e.params.RequestState != rec.ID { // no answer, or one to another question
		e.asked = &rec
		return approval.Answer{}, errNextRound
	}
	return e.answer(rec, got)
}

// result is the result of a call that asks a question; nil if it asks none.
func (e *elicitation) result() *sdk.CallToolResult {
	if e == nil || e.asked == nil {
		return nil
	}
	return &sdk.CallToolResult{
		InputRequests: sdk.InputRequestMap{approvalInput: e.question(*e.asked)}, RequestState: e.asked.ID,
	}
}

// answer reads a user's answer. A user who dismissed the question has not answered.
func (e *elicitation) answer(rec approval.Record, got *sdk.ElicitResult) (approval.Answer, error) {
	a := approval.Answer{By: "the user of an MCP client"}
	if init := e.client.InitializeParams(); init != nil && init.ClientInfo != nil && init.ClientInfo.Name != "" {
		a.By = "the user of " + init.ClientInfo.Name
	}
	switch got.Action {
	case "decline":
		a.Decision = approval.Deny
		return a, nil
	case "accept":
	default:
		return a, corral.Errorf(corral.ErrApproval, "", "the user did not answer for approval %s", rec.Slug)
	}
	said, _ := got.Content["decision"].(string)
	var err error
	if a.Decision, err = approval.ParseVerdict(said); err != nil {
		return a, err
	}
	if a.Decision == approval.AllowAlways && e.always != nil {
		return a, e.always
	}
	if scope, _ := got.Content["scope"].(string); a.Decision == approval.AllowAlways {
		a.Scope, err = approval.ParseScope(scope)
	}
	return a, err
}

// question shows a command and the possible answers.
func (e *elicitation) question(rec approval.Record) *sdk.ElicitParams {
	if e.always != nil && slices.Contains(rec.AllowedDecisions, approval.AllowAlways) {
		rec.AllowedDecisions = slices.DeleteFunc(slices.Clone(rec.AllowedDecisions), func(v approval.Verdict) bool { return v == approval.AllowAlways })
		rec.AlwaysUnavailable = e.always.Error()
	}
	lines := append([]string{fmt.Sprintf("The agent %s asks to run a command (approval %s).", approval.Visible(rec.Agent), rec.Slug)}, rec.About()...)
	lines = append(lines, rec.AboutAlways()...)
	properties := map[string]any{
		"decision": map[string]any{"type": "string", "title": "Decision", "enum": rec.AllowedDecisions},
	}
	var scopes []approval.Scope
	for _, p := range rec.Previews {
		if p.Unavailable == "" {
			scopes = append(scopes, p.Scope)
		}
	}
	for _, v := range rec.AllowedDecisions {
		if v == approval.AllowAlways && len(scopes) > 0 {
			properties["scope"] = map[string]any{
				"type": "string", "title": "Scope", "enum": scopes, "default": scopes[0],
				"description": "how much of the command allow-always remembers",
			}
		}
	}
	return &sdk.ElicitParams{
		Mode: "form", Message: strings.Join(lines, "\n"),
		RequestedSchema: map[string]any{"type": "object", "properties": properties, "required": []string{"decision"}},
	}
}

var _ tool.Approver = (*elicitation)(nil).approve
