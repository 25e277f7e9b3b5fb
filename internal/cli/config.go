package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/globalfs/globalfs/internal/command"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration that is in effect",
		Long:  `config shows the settings of the cluster file and the flags of commands, with the source of each value.`,
		Example: `  globalfs config show
  globalfs config show mount`,
	}
	command.Group(cmd)
	cmd.AddCommand(newConfigShow())
	return cmd
}

// setting is one value of the configuration.
type setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"` // default, FILE:LINE, or an environment variable
}

func newConfigShow() *cobra.Command {
	var config, output string
	cmd := &cobra.Command{
		Use:   "show [COMMAND...]",
		Short: "Show each setting with its value and its source",
		Long: `show prints the settings of the cluster file: those of the file with their lines, and the defaults of all others. With a COMMAND, such as mount
or server, it prints the flags of that command: the default, or the value of the environment variable (GLOBALFS_ and the name of the flag).
It does not show passwords and keys.`,
		Example: `  globalfs config show --config cluster.yaml
  GLOBALFS_CACHE_SIZE=10G globalfs config show mount
  globalfs config show -o json | jq '.[] | select(.source != "default")'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var settings []setting
			var err error
			if len(args) == 0 {
				settings, err = fileSettings(cmp.Or(config, defaultConfig()))
			} else {
				settings, err = flagSettings(cmd.Root(), args)
			}
			if err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(cmd.OutOrStdout(), settings)
			}
			return printSettings(cmd.OutOrStdout(), settings)
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "the cluster file (default: "+defaultConfigs+")")
	outputFlag(cmd, &output)
	arguments(cmd, commandNames)
	return cmd
}

// commandNames returns the names of all commands.
func commandNames(cmd *cobra.Command, _ []string) (names []string) {
	for _, c := range cmd.Root().Commands() {
		names = append(names, c.Name())
	}
	return names
}

func printSettings(out io.Writer, settings []setting) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tSOURCE")
	for _, s := range settings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, orDash(s.Value), s.Source)
	}
	return w.Flush()
}

// fileSettings returns the settings of a cluster file, complete with defaults.
func fileSettings(path string) ([]setting, error) {
	if path == "" {
		return nil, errNoConfig
	}
	file, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, command.InputError(err)
	}
	given := map[string]leaf{}
	if err := leaves(text, given); err != nil {
		return nil, command.InputError(fmt.Errorf("%s: %w", path, err))
	}
	complete, err := yaml.Marshal(file)
	if err != nil {
		return nil, err
	}
	effective := map[string]leaf{}
	if err := leaves(complete, effective); err != nil {
		return nil, err
	}
	for _, name := range keptByServers {
		delete(effective, name)
	}
	var settings []setting
	for name, l := range effective {
		s := setting{Name: name, Value: withoutSecret(name, l.value), Source: "default"}
		if g, ok := given[name]; ok {
			s.Source = fmt.Sprintf("%s:%d", path, g.line)
		}
		settings = append(settings, s)
	}
	slices.SortFunc(settings, func(a, b setting) int { return strings.Compare(a.Name, b.Name) })
	return settings, nil
}

// keptByServers are the keys of a description that a cluster file must not have.
var keptByServers = []string{"version", "created", "restored", "replaced", "storage_changes", "revoked"}

// leaf is a value of a YAML document.
type leaf struct {
	value string
	line  int
}

// leaves adds the values of a YAML document to a map, by their paths, such as registry.timeout. A list
// without maps is one value.
func leaves(text []byte, into map[string]leaf) error {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return err
	}
	for _, node := range document.Content {
		addLeaves("", node, into)
	}
	return nil
}

func addLeaves(path string, node *yaml.Node, into map[string]leaf) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i].Value
			if path != "" {
				name = path + "." + name
			}
			addLeaves(name, node.Content[i+1], into)
		}
	case yaml.SequenceNode:
		var values []string
		for i, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				addLeaves(fmt.Sprintf("%s[%d]", path, i), item, into)
				continue
			}
			values = append(values, item.Value)
		}
		if len(values) == len(node.Content) {
			into[path] = leaf{strings.Join(values, ", "), node.Line}
		}
	case yaml.ScalarNode:
		value := node.Value
		if node.Tag == "!!null" {
			value = ""
		}
		into[path] = leaf{value, node.Line}
	case yaml.DocumentNode, yaml.AliasNode:
	}
}

// flagSettings returns the flags of a command.
func flagSettings(root *cobra.Command, args []string) ([]setting, error) {
	found, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 || found == root {
		return nil, command.UsageError(fmt.Errorf("config show: there is no command %q: see 'globalfs --help'", strings.Join(args, " ")))
	}
	settings := []setting{}
	add := func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		s := setting{Name: "--" + f.Name, Value: f.Value.String(), Source: "default"}
		variable := command.Variable(root, f.Name)
		if value, ok := os.LookupEnv(variable); ok {
			s.Value, s.Source = value, variable
		}
		s.Value = withoutSecret(f.Name, s.Value)
		settings = append(settings, s)
	}
	found.LocalFlags().VisitAll(add)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if found.LocalFlags().Lookup(f.Name) == nil {
			add(f)
		}
	})
	return settings, nil
}

// Secrets are not shown: values of settings with such names, and passwords in URLs.
var (
	secretName  = regexp.MustCompile(`(?i)(password|passwd|secret|access_?key|token|private_?key)$`)
	secretInURL = regexp.MustCompile(`(://[^/\s:@]*):[^/\s@]+@`)
	secretLine  = regexp.MustCompile(`(?im)^(\s*-?\s*["']?[\w.-]*(?:password|passwd|secret|access_?key|token|private_?key)["']?\s*[:=]\s*)\S.*$`)
)

// hidden replaces a secret.
const hidden = "(hidden)"

func withoutSecret(name, value string) string {
	if secretName.MatchString(name) && value != "" {
		return hidden
	}
	return secretInURL.ReplaceAllString(value, "$1:"+hidden+"@")
}

// withoutSecrets hides the secrets in a text of settings.
func withoutSecrets(text []byte) []byte {
	text = secretLine.ReplaceAll(text, []byte("${1}"+hidden))
	text = secretInURL.ReplaceAll(text, []byte("$1:"+hidden+"@"))
	if at := bytes.Index(text, []byte("PRIVATE KEY-----")); at >= 0 {
		return []byte("left out: it has a private key\n")
	}
	return text
}
