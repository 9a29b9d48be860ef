{{/* What this chart runs, in the words of the programs. */}}
{{- define "fairlead.role" -}}
member
{{- end }}

{{/* The programs of this chart whose metrics are read. */}}
{{- define "fairlead.components" -}}
{{- if .Values.dns.enabled -}}
[member, dns]
{{- else -}}
[member]
{{- end -}}
{{- end }}
