"""Words that say nothing about what is looked for, by language."""

from __future__ import annotations

STOP_WORDS = {
    "en": """a about after again against ain't all also am an and any are aren't as at be because been before being between both
but by can can't could did didn't do does doesn't doing don't during each else few for from further had has have having he her
here hers herself him himself his how i i'd i'll i'm i've if in into is isn't it it's its itself just may me might mine more
most must my myself no nor not now of off on once only or other our ours ourselves out over own same shall she should so some
such than that that's the their theirs them themselves then there these they this those through to too under until us very
was wasn't we were what what's when where which while who whom whose why will with would you you're your yours yourself""",
    "de": """aber als also am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den der des dich die dies
diese dieser dieses dir doch dort du durch ein eine einem einen einer eines er es euch euer für hab habe haben hat hatte ich
ihm ihn ihr ihre im in ist ja jede jeder jedes kann kein keine können man mein meine mich mir mit nach nein nicht noch nun
nur ob oder ohne sein seine sich sie sind so über um und uns unser unter vom von vor war waren was weil wenn wer wie wir wird
wo zu zum zur""",
    "fr": """à au aux avec ce ces cette dans de des du elle elles en est et eu il ils j je l la le les leur leurs lui m ma mais
me même mes moi mon n ne nos notre nous on ou par pas pour qu que qui s sa se ses son sont sur t ta te tes toi ton tu un une
vos votre vous c d""",
    "es": """a al algo como con cual cuando de del desde donde dos el ella ellas ellos en era es esa ese eso esta este esto
está están fue ha han hay la las le les lo los me mi mis muy más no nos o para pero por porque que quien se ser si sin sobre
son su sus también te ti tiene todo tu tus un una uno y ya yo él""",
    "it": """a ad ai al alla alle anche che chi ci come con cui da dal dalla degli dei del della delle di dove e ed era gli ha
ho i il in io l la le lei lo loro lui ma mi mia mio nei nel nella noi non o per perché più quando quello questa questo se si
sono su sua suo ti tra tu un una uno vi voi è""",
    "pt": """a ao aos as com como da das de dela dele do dos e ela elas ele eles em era essa esse esta este eu foi há isso isto
já lhe lo mais mas me meu meus minha minhas muito na nas nem no nos nossa nosso não o os ou para pela pelo por qual quando que
quem se sem ser seu seus sua suas são também te tem tu um uma você vocês é à""",
    "nl": """aan al als bij dan dat de der deze die dit door een en er geen had heb hebben heeft het hij hoe hun ik in is ja je
kan maar me met mij mijn naar niet nog nu of om omdat onder ons ook op over te tot uit van veel voor waar was wat we wel wie
wij wordt ze zich zij zijn zo zou""",
}
