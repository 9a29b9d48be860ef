{{/* Flags of the programs of this chart. */}}
{{- define "fairlead.role" -}}
member
{{- end }}

{{/* The programs of this chart with metrics. */}}
{{- define "fairlead.components" -}}
{{- if .Values.dns.enabled -}}
[member, dns]
{{- else -}}
[member]
{{- end -}}
{{- end }}
