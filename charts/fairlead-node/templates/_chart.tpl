{{/* Values of Fleetboard's chart that have no effect here. */}}
{{- define "fairlead.fleetboard" -}}
{{- $ignored := list -}}
{{- range tuple "cluster" "hub" "service" "tunnel" -}}
{{- if hasKey $.Values . -}}
{{- $ignored = append $ignored . -}}
{{- end -}}
{{- end -}}
{{- join ", " $ignored -}}
{{- end }}
