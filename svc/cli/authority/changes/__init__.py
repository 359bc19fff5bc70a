"""The commands by which several people change a policy: proposed, reviewed, approved, activated.

Begin with ``propose``.  What is shown, ``page``, is what ``signer`` signs; nothing here decides
whether an approval counts.
"""
