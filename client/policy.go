package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
)

// ExplainOptions say what to report of a command beside the decision.
type ExplainOptions struct {
	Environment bool // where its variables and the entries of its PATH are from
	Values      bool // the values of variables too, but for credentials

	Sender config.Sender // for whom the command would run; the zero one: for the caller
}

// Explain says what would become of a command, and why. It starts nothing and asks
// for no approval.
func (c *Client) Explain(ctx context.Context, cmd corral.Command, o ExplainOptions) (api.Report, error) {
	var report api.Report
	if err := cmd.Validate(); err != nil {
		return report, err
	}
	req := api.Explain{Start: api.NewStart(cmd, false), Environment: o.Environment, Values: o.Values}
	err := c.json(ctx, call{method: http.MethodPost, path: []string{"explain"}, header: ofSender(o.Sender)}, req, &report)
	return report, err
}

// Overrides are what was set for the agent in the place of its configuration.
func (c *Client) Overrides(ctx context.Context) (config.Overrides, error) {
	return ask[config.Overrides](ctx, c, get("overrides"), nil)
}

// SetOverrides replaces them; what is empty is not overridden.
func (c *Client) SetOverrides(ctx context.Context, to config.Overrides) (config.Overrides, error) {
	return ask[config.Overrides](ctx, c, call{method: http.MethodPut, path: []string{"overrides"}, changes: true}, to)
}

// Say passes on a message to the agent, such as "/exec ask=always", and returns the
// answer to show. Fill in what is known of the sender; the zero Sender is the caller.
func (c *Client) Say(ctx context.Context, text string, from config.Sender) (string, error) {
	req := api.Said{Text: text}
	if from != (config.Sender{}) {
		req.Sender = &from
	}
	reply, err := ask[api.Reply](ctx, c, call{method: http.MethodPost, path: []string{"commands"}, once: true, changes: true}, req)
	return reply.Text, err
}

// A Called is the result of a tool in each of its renderings.
type Called struct {
	Result json.RawMessage
	Text   string // for a model
	Failed bool   // the call did not do what was asked for
}

// CallTool calls any tool by its name, for a model ("" if that is not known).
// If the connection was cut, that is ErrLost: nothing is repeated.
func (c *Client) CallTool(ctx context.Context, name, model string, arguments json.RawMessage) (Called, error) {
	var raw json.RawMessage
	answer := api.Called{Result: &raw}
	req := call{method: http.MethodPost, path: []string{"tools", name}, once: true, changes: true, body: arguments, header: ofModel(model)}
	err := c.json(ctx, req, nil, &answer)
	return Called{Result: raw, Text: answer.Text, Failed: answer.Failed}, err
}

func ofModel(model string) map[string]string {
	if model == "" {
		return nil
	}
	return map[string]string{api.HeaderModel: model}
}

func ofSender(s config.Sender) map[string]string {
	if s.String() == "" {
		return nil
	}
	return map[string]string{api.HeaderSender: s.String()}
}
